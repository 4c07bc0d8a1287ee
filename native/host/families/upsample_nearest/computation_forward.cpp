// A row of cells is copied once, by the columns' cells, and then as often as it has copies.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "forward.h"
#include "plan/scratch.h"
#include "plan/tiles.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

// Of a tile: where each cell has up to four copies, tiles begin with the first copy of one.
constexpr int64_t kMostColumns = 3072;

void FindCells(const NearestAxis& axis, int64_t first, int64_t count, int64_t* cells) {
  const auto last = static_cast<float>(axis.size - 1);
  for (int64_t i = 0; i < count; ++i) {
    const float place = std::floor(static_cast<float>(first + i) * axis.step);
    cells[i] = std::min(static_cast<int64_t>(std::min(place, last)), axis.size - 1);
  }
}

// Makes the tiles of one thread.
template <typename T>
class CopiedRows {
 public:
  CopiedRows(const NearestCopies& copies, const KernelArguments& arguments)
      : copies_(copies),
        rows_(copies.rows, copies.rows.upsampled, FindCells),
        self_(arguments.inputs[0]),
        out_(arguments.outputs[0]),
        cells_(static_cast<size_t>(std::min(kMostColumns, copies.columns.upsampled))) {}

  void SetTile(const Tile& tile) {
    if (tile.left == left_) return;
    left_ = tile.left;
    width_ = tile.width();
    FindCells(copies_.columns, tile.left, width_, cells_.data());
    factor_ = FindFactor();
  }

  int64_t MakeRows(const Tile& tile, int64_t y, int64_t first_cell) {
    const int64_t row = rows_.At(y);
    const int64_t first = (tile.plane * copies_.rows.size + row) * copies_.columns.size;
    std::byte* const out = out_ + first_cell * kBytes;
    MakeRow(self_ + first * kBytes, out);
    int64_t next = y + 1;
    for (; next < tile.bottom && rows_.At(next) == row; ++next) {
      std::memcpy(out + (next - y) * copies_.columns.upsampled * kBytes, out, static_cast<size_t>(width_) * sizeof(T));
    }
    return next - y;
  }

 private:
  static constexpr auto kBytes = int64_t{sizeof(T)};

  // How many copies each cell of the tile has: up to four, or 0 if they have more or different numbers.
  [[nodiscard]] int64_t FindFactor() const {
    const auto end = cells_.begin() + width_;
    const int64_t factor =
        std::find_if(cells_.begin(), end, [&](int64_t cell) { return cell != cells_[0]; }) - cells_.begin();
    if (factor > 4) return 0;
    for (int64_t i = 0; i < width_; ++i) {
      if (cells_[static_cast<size_t>(i)] != cells_[0] + i / factor) return 0;
    }
    return factor;
  }

  void MakeRow(const std::byte* row, std::byte* out) const {
    const std::byte* const cells = row + cells_[0] * kBytes;
    switch (factor_) {
      case 1:
        std::memcpy(out, cells, static_cast<size_t>(width_) * sizeof(T));
        break;
      case 2:
        return Repeat<2>(cells, out);
      case 3:
        return Repeat<3>(cells, out);
      case 4:
        return Repeat<4>(cells, out);
      default:
        for (int64_t i = 0; i < width_; ++i) StoreElement(out, i, LoadElement<T>(row, cells_[static_cast<size_t>(i)]));
    }
  }

  template <int64_t kFactor>
  void Repeat(const std::byte* __restrict cells, std::byte* __restrict out) const {
    const int64_t whole = width_ / kFactor;
    for (int64_t cell = 0; cell < whole; ++cell) {
      const T element = LoadElement<T>(cells, cell);
      for (int64_t copy = 0; copy < kFactor; ++copy) StoreElement(out, cell * kFactor + copy, element);
    }
    for (int64_t i = whole * kFactor; i < width_; ++i) StoreElement(out, i, LoadElement<T>(cells, whole));
  }

  const NearestCopies& copies_;
  Stretch<NearestAxis, int64_t> rows_;
  const std::byte* const self_;
  std::byte* const out_;

  // The tile, and the cells that its columns are copies of.
  int64_t left_ = -1;
  int64_t width_ = 0;
  std::vector<int64_t> cells_;
  int64_t factor_ = 0;
};

}  // namespace

template <>
void UpsampleNearest2d<VECTOR_LEVEL>::Run(const NearestCopies& copies, aclDataType type,
                                          const KernelArguments& arguments) {
  const NearestAxis& columns = copies.columns;
  const Tiles tiles{copies.planes, copies.rows.upsampled, columns.upsampled, kMostColumns};
  VisitElementSize(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const int64_t scratch_bytes = std::min(kMostColumns, columns.upsampled) * int64_t{sizeof(int64_t)};
    const TileWork work{2 * tiles.planes * tiles.rows * tiles.columns, sizeof(T), scratch_bytes};
    ForTiles(arguments.pool, tiles, work, [&] { return CopiedRows<T>(copies, arguments); });
  });
}

}  // namespace acl_host
