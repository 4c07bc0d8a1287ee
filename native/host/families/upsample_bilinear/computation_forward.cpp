// An upsampled cell lies between two cells along each axis. Rows of cells are interpolated along the columns first, of
// which the last two are kept: the rows between them follow one another.
//
// Each row depends only on its position, so the result does not depend on the number of threads.
#include <algorithm>
#include <array>
#include <vector>

#include "axis.h"
#include "computation.h"
#include "plan/scratch.h"
#include "plan/tiles.h"
#include "tensors/elements.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// Upsampled cells of a tile, and cells that are widened together: one by one if those of a tile are farther apart.
constexpr int64_t kMostColumns = 1024;
constexpr int64_t kMostCells = 2048;

// Lanes in another order, or several times.
inline FloatLanes Chosen(FloatLanes lanes, WordLanes places) {
#if defined(__AVX512F__)
  return BitCast<FloatLanes>(_mm512_maskz_permutexvar_ps(kEveryLane, BitCast<__m512i>(places), BitCast<__m512>(lanes)));
#elif defined(__AVX2__)
  return BitCast<FloatLanes>(_mm256_permutevar8x32_ps(BitCast<__m256>(lanes), BitCast<__m256i>(places)));
#else
  FloatLanes chosen;
  for (int64_t i = 0; i < kFloatLanes; ++i) chosen[i] = lanes[places[i]];
  return chosen;
#endif
}

// The columns of a tile: the cell of each, counted from the first, its share and that of the next cell.
class TileColumns {
 public:
  explicit TileColumns(const LinearAxis& axis)
      : axis_(axis),
        sources_(axis),
        cells_(static_cast<size_t>(Most(axis))),
        places_(Most(axis)),
        own_(Most(axis)),
        of_next_(Most(axis)) {}

  static int64_t Most(const LinearAxis& axis) { return std::min(kMostColumns, axis.upsampled); }
  static int64_t ScratchBytes(const LinearAxis& axis) {
    return Most(axis) * int64_t{sizeof(int64_t) + sizeof(uint32_t) + 2 * sizeof(float)};
  }

  void Set(const Tile& tile) {
    if (tile.left == left_) return;
    left_ = tile.left;
    width_ = tile.width();
    first_ = sources_.WithNextOf(left_).cell;
    is_dense_ = true;
    for (int64_t i = 0; i < width_; ++i) {
      const LinearSource source = sources_.WithNextOf(left_ + i);
      cells_[static_cast<size_t>(i)] = source.cell - first_;
      own_.data()[i] = source.own;
      of_next_.data()[i] = source.of_next;
      const int64_t place = CellOf(i) - CellOf(i / kFloatLanes * kFloatLanes);
      is_dense_ = is_dense_ && place < kFloatLanes;
      places_.data()[i] = static_cast<uint32_t>(place);
    }
  }

  [[nodiscard]] int64_t width() const { return width_; }
  // In a row of cells.
  [[nodiscard]] int64_t first() const { return first_; }
  // The cells that columns lie at, and those that exist up to the one behind them.
  [[nodiscard]] int64_t count() const { return CellOf(width_ - 1) + 1; }
  [[nodiscard]] int64_t count_with_next() const { return std::min(count() + 1, axis_.size - first_); }
  // Whether the cells of as many columns as there are lanes follow one another.
  [[nodiscard]] bool is_dense() const { return is_dense_; }

  // From the tile's cells, of which the last is there twice if it has no next one.
  void InterpolateDense(const float* cells, float* values) const {
    const auto* const from = reinterpret_cast<const std::byte*>(cells);
    ForLanes(width_, [&](int64_t i, auto lanes) {
      const auto places = BitCast<WordLanes>(LoadLanes<float>(places_.bytes(), i, lanes));
      const FloatLanes own = Chosen(LoadLanes<float>(from, CellOf(i), AllLanes{}), places);
      const FloatLanes next = Chosen(LoadLanes<float>(from, CellOf(i) + 1, AllLanes{}), places);
      const FloatLanes sum =
          LoadLanes<float>(own_.bytes(), i, lanes) * own + LoadLanes<float>(of_next_.bytes(), i, lanes) * next;
      StoreLanes<float>(sum, reinterpret_cast<std::byte*>(values), i, lanes);
    });
  }

  template <typename T>
  void Interpolate(const std::byte* cells, float* values) const {
    const int64_t last = count_with_next() - 1;
    for (int64_t i = 0; i < width_; ++i) {
      const int64_t cell = CellOf(i);
      values[i] = own_.data()[i] * WidenElement<T>(cells, cell) +
                  of_next_.data()[i] * WidenElement<T>(cells, std::min(cell + 1, last));
    }
  }

 private:
  [[nodiscard]] int64_t CellOf(int64_t column) const { return cells_[static_cast<size_t>(column)]; }

  const LinearAxis& axis_;
  const Sources sources_;
  int64_t left_ = -1;
  int64_t width_ = 0;
  int64_t first_ = 0;
  bool is_dense_ = false;
  std::vector<int64_t> cells_;
  Scratch<uint32_t> places_;  // of the cells, from that of the first lane's column
  Scratch<float> own_;
  Scratch<float> of_next_;
};

// Makes the tiles of one thread.
template <typename T>
class InterpolatedRows {
 public:
  InterpolatedRows(const LinearUpsampling& upsampling, const KernelArguments& arguments)
      : upsampling_(upsampling),
        row_sources_(upsampling.rows),
        self_(arguments.inputs[0]),
        out_(arguments.outputs[0]),
        columns_(upsampling.columns),
        widened_(MostCells(upsampling) + kFloatLanes + 1),
        rows_{Row(upsampling.columns), Row(upsampling.columns)} {}

  static int64_t ScratchBytes(const LinearUpsampling& upsampling) {
    const int64_t floats = MostCells(upsampling) + 2 * TileColumns::Most(upsampling.columns);
    return TileColumns::ScratchBytes(upsampling.columns) + floats * int64_t{sizeof(float)};
  }

  void SetTile(const Tile& tile) {
    columns_.Set(tile);
    for (Row& row : rows_) row.number = -1;
  }

  int64_t MakeRows(const Tile& tile, int64_t y, int64_t first_cell) {
    const LinearSource source = row_sources_.WithNextOf(y);
    const int64_t last = upsampling_.rows.size - 1;
    const std::byte* const upper = RowOf(tile.plane, source.cell);
    const std::byte* const lower = RowOf(tile.plane, std::min(source.cell + 1, last));
    std::byte* const out = out_ + first_cell * int64_t{sizeof(T)};
    ForLanes(columns_.width(), [&](int64_t i, auto lanes) {
      const FloatLanes sum =
          source.own * LoadLanes<float>(upper, i, lanes) + source.of_next * LoadLanes<float>(lower, i, lanes);
      StoreLanes<T>(sum, out, i, lanes);
    });
    return 1;
  }

 private:
  // A row of cells, interpolated along the tile's columns.
  struct Row {
    explicit Row(const LinearAxis& columns) : values(TileColumns::Most(columns)) {}

    int64_t number = -1;  // in the plane
    Scratch<float> values;
  };

  static int64_t MostCells(const LinearUpsampling& upsampling) { return std::min(kMostCells, upsampling.columns.size); }

  // A row and the next one have different places.
  const std::byte* RowOf(int64_t plane, int64_t number) {
    Row& row = rows_[static_cast<size_t>(number % 2)];
    if (row.number != number) {
      row.number = number;
      Interpolate(plane, number, row.values.data());
    }
    return row.values.bytes();
  }

  void Interpolate(int64_t plane, int64_t number, float* values) const {
    const int64_t first = (plane * upsampling_.rows.size + number) * upsampling_.columns.size + columns_.first();
    const std::byte* const cells = self_ + first * int64_t{sizeof(T)};
    const int64_t count = columns_.count_with_next();
    if (!columns_.is_dense() || count > kMostCells) return columns_.template Interpolate<T>(cells, values);
    WidenRow<T>(cells, widened_.data(), count);
    widened_.data()[count] = widened_.data()[count - 1];
    columns_.InterpolateDense(widened_.data(), values);
  }

  const LinearUpsampling& upsampling_;
  const Sources row_sources_;
  const std::byte* const self_;
  std::byte* const out_;
  TileColumns columns_;
  Scratch<float> widened_;
  std::array<Row, 2> rows_;
};

}  // namespace

template <>
void UpsampleBilinear2d<VECTOR_LEVEL>::Run(const LinearUpsampling& upsampling, aclDataType type,
                                           const KernelArguments& arguments) {
  const Tiles tiles{upsampling.planes, upsampling.rows.upsampled, upsampling.columns.upsampled, kMostColumns};
  VisitFloatType(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Rows = InterpolatedRows<T>;
    const TileWork work{4 * tiles.planes * tiles.rows * tiles.columns, sizeof(T), Rows::ScratchBytes(upsampling)};
    ForTiles(arguments.pool, tiles, work, [&] { return Rows(upsampling, arguments); });
  });
}

}  // namespace acl_host
