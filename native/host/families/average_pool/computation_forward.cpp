// Average pooling: the rows of a window are added up column by column, and then its columns. Sums are rounded once.
// Each row of windows depends only on its place, so the result depends neither on the tiles nor on the number of
// threads.
#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "families/average_pool/computation.h"
#include "families/rows/pairs.h"
#include "plan/scratch.h"
#include "plan/tiles.h"
#include "tensors/elements.h"
#include "tensors/rows.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

// Columns of the input that are added up at a time, and windows of a row.
constexpr int64_t kMostColumns = 4096;
constexpr int64_t kMostWindows = 512;
// Windows that follow one another so closely are added up side by side.
constexpr int64_t kMostCloseStride = 4;
// The sums of a window that lies apart, of every eighth column each.
constexpr int64_t kSumsOfWindow = 8;

bool HasCloseWindows(const PooledAxis& axis) {
  return axis.kernel > 0 && axis.stride <= kMostCloseStride && axis.kernel <= kMostColumns / 2;
}

// Windows of a row whose columns fit, or one.
int64_t WindowsOf(const PooledAxis& axis) {
  const int64_t step = axis.kernel > 0 ? axis.stride : axis.size / axis.pooled + 1;
  const int64_t room = kMostColumns - std::min(axis.kernel > 0 ? axis.kernel : step + 2, kMostColumns);
  return std::min({axis.pooled, kMostWindows, room / step + 1});
}

// Adds up rows of elements, which lie so many bytes from one another, into a row of sums: some rows at a time, so that
// what is read remains in the cache.
template <typename T, typename Sum>
void SumRows(const std::byte* row, int64_t pitch, int64_t rows, int64_t columns, Sum* to) {
  constexpr int64_t kRows = 8;
  if constexpr (std::is_same_v<Sum, float>) {
    auto* const sums = reinterpret_cast<std::byte*>(to);
    for (int64_t y = 0; y < rows; y += kRows) {
      const int64_t some = std::min(kRows, rows - y);
      ForLanes(columns, [&](int64_t x, auto lanes) {
        FloatLanes sum = y == 0 ? FloatLanes{} : LoadLanes<float>(sums, x, AllLanes{});
        for (int64_t i = 0; i < some; ++i) sum += LoadLanes<T>(row + i * pitch, x, lanes);
        StoreLanes<float>(sum, sums, x, AllLanes{});
      });
      row += kRows * pitch;
    }
  } else {
    AddRow<T, true>(row, columns, to);
    for (int64_t y = 1; y < rows; ++y) AddRow<T>(row + y * pitch, columns, to);
  }
}

template <typename T, typename Sum>
class PooledRows {
 public:
  PooledRows(const AveragePool& pool, const KernelArguments& arguments)
      : pool_(pool),
        self_(arguments.inputs[0]),
        out_(arguments.outputs[0]),
        are_close_(HasCloseWindows(pool.columns)),
        columns_(kMostColumns + kBehind),
        parts_(are_close_ && pool.columns.stride == 2 ? kMostColumns + kBehind : 0),
        sums_(kRowsAtATime * WindowsOf(pool.columns) + kBehind),
        divisors_(WindowsOf(pool.columns) + kBehind),
        cells_(static_cast<size_t>(WindowsOf(pool.columns))),
        row_cells_(pool.rows, pool.rows.pooled, FindCells),
        row_counts_(pool.rows, pool.rows.pooled, CountCells) {
    std::fill_n(divisors_.data(), WindowsOf(pool.columns) + kBehind, Sum{1});
  }

  [[nodiscard]] static int64_t ScratchBytes(const AveragePool& pool) {
    return (2 * kMostColumns + (kRowsAtATime + 3) * WindowsOf(pool.columns)) * int64_t{sizeof(Sum)};
  }

  // Other planes have the same columns.
  void SetTile(const Tile& tile) {
    if (tile.left == left_) return;
    left_ = tile.left;
    count_ = tile.width();
    FindCells(pool_.columns, tile.left, count_, cells_.data());
    if (pool_.divisor == 0) {
      std::vector<int64_t> counts(static_cast<size_t>(count_));
      CountCells(pool_.columns, tile.left, count_, counts.data());
      std::transform(counts.begin(), counts.end(), divisors_.data(),
                     [](int64_t cells) { return static_cast<Sum>(cells); });
    }
    if (!are_close_) return;
    // With the padding, whose sums are zeros.
    first_ = tile.left * pool_.columns.stride - pool_.columns.padding;
    length_ = (count_ - 1) * pool_.columns.stride + pool_.columns.kernel;
    inside_.begin = std::clamp<int64_t>(-first_, 0, length_);
    inside_.end = std::clamp(pool_.columns.size - first_, inside_.begin, length_);
    std::fill_n(columns_.data(), length_ + kBehind, Sum{});
  }

  // Some rows that are side by side in memory.
  int64_t MakeRows(const Tile& tile, int64_t row, int64_t first) {
    const int64_t rows = count_ == pool_.columns.pooled ? std::min(kRowsAtATime, tile.bottom - row) : 1;
    for (int64_t i = 0; i < rows; ++i) {
      const Range cells = row_cells_.At(row + i);
      const auto divisor = static_cast<Sum>(pool_.divisor == 0 ? row_counts_.At(row + i) : pool_.divisor);
      Sum* const to = sums_.data() + i * count_;
      are_close_ ? MakeClose(tile, cells, divisor, to) : MakeApart(tile, cells, divisor, to);
    }
    RoundRow<T>(sums_.data(), out_ + first * int64_t{sizeof(T)}, rows * count_);
    return rows;
  }

 private:
  // That whole vectors may read and write.
  static constexpr int64_t kBehind = 2 * kFloatLanes;
  static constexpr int64_t kRowsAtATime = 8;

  // Adds up some columns over the rows.
  void AddRows(const Tile& tile, const Range& rows, const Range& columns, Sum* to) const {
    const int64_t width = pool_.columns.size;
    const int64_t at = (tile.plane * pool_.rows.size + rows.begin) * width + columns.begin;
    SumRows<T>(self_ + at * int64_t{sizeof(T)}, width * int64_t{sizeof(T)}, rows.size(), columns.size(), to);
  }

  // Each window's columns in order, of many windows at a time.
  void MakeClose(const Tile& tile, const Range& rows, Sum divisor, Sum* to) {
    AddRows(tile, rows, {first_ + inside_.begin, first_ + inside_.end}, columns_.data() + inside_.begin);
    const int64_t stride = pool_.columns.stride;
    if constexpr (std::is_same_v<Sum, float>) {
      if (stride == 1) return AddUp(columns_.data(), columns_.data() + 1, 2, divisor, to);
      if (stride == 2) {
        const int64_t half = (length_ + 1) / 2;
        float* const odd = parts_.data() + (half + kFloatLanes - 1) / kFloatLanes * kFloatLanes;
        Split(columns_.data(), half, parts_.data(), odd);
        return AddUp(parts_.data(), odd, 1, divisor, to);
      }
    }
    const Sum* const columns = columns_.data();
    for (int64_t i = 0; i < count_; ++i) {
      Sum sum = columns[i * stride];
      for (int64_t j = 1; j < pool_.columns.kernel; ++j) sum += columns[i * stride + j];
      to[i] = sum;
    }
    Divide(divisor, to);
  }

  // Columns with even numbers and with odd ones, each so far from the one before it: windows that follow one another
  // read those that do.
  void AddUp(const float* even, const float* odd, int64_t step, Sum divisor, float* to) {
    const int64_t kernel = pool_.columns.kernel;
    const FloatLanes of_row = Filled(static_cast<float>(divisor));
    for (int64_t i = 0; i < count_; i += kFloatLanes) {
      FloatLanes sum = LoadFloats(even + i);
      for (int64_t j = 1; j < kernel; ++j) sum += LoadFloats((j % 2 == 0 ? even : odd) + j / 2 * step + i);
      StoreFloats(sum / (of_row * LoadFloats(divisors_.data() + i)), to + i);
    }
  }

  // A window's columns in several sums, and all windows at once if their columns fit.
  void MakeApart(const Tile& tile, const Range& rows, Sum divisor, Sum* to) {
    const int64_t begin = cells_[0].begin;
    const Range all{begin, cells_[static_cast<size_t>(count_ - 1)].end};
    if (all.size() <= kMostColumns) {
      AddRows(tile, rows, all, columns_.data());
      for (int64_t i = 0; i < count_; ++i) {
        const Range& cells = cells_[static_cast<size_t>(i)];
        SumsOfWindow sums{};
        AddWindow(columns_.data() + (cells.begin - begin), cells.size(), sums);
        to[i] = TotalOf(sums);
      }
    } else {
      // One window, as no others fit beside it.
      SumsOfWindow sums{};
      for (int64_t x = all.begin; x < all.end; x += kMostColumns) {
        const Range some{x, std::min(all.end, x + kMostColumns)};
        AddRows(tile, rows, some, columns_.data());
        AddWindow(columns_.data(), some.size(), sums);
      }
      to[0] = TotalOf(sums);
    }
    Divide(divisor, to);
  }

  void Divide(Sum divisor, Sum* __restrict sums) const {
    const Sum* __restrict const divisors = divisors_.data();
    for (int64_t i = 0; i < count_; ++i) sums[i] = sums[i] / (divisor * divisors[i]);
  }

  using SumsOfWindow = std::array<Sum, kSumsOfWindow>;
  static_assert(kMostColumns % kSumsOfWindow == 0);

  static void AddWindow(const Sum* __restrict columns, int64_t count, SumsOfWindow& sums) {
    int64_t x = 0;
    for (; x + kSumsOfWindow <= count; x += kSumsOfWindow) {
      for (int64_t i = 0; i < kSumsOfWindow; ++i) sums[static_cast<size_t>(i)] += columns[x + i];
    }
    for (int64_t i = 0; x + i < count; ++i) sums[static_cast<size_t>(i)] += columns[x + i];
  }

  static Sum TotalOf(const SumsOfWindow& sums) {
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }

  const AveragePool& pool_;
  const std::byte* const self_;
  std::byte* const out_;
  const bool are_close_;
  const Scratch<Sum> columns_;
  const Scratch<Sum> parts_;
  const Scratch<Sum> sums_;
  const Scratch<Sum> divisors_;
  std::vector<Range> cells_;
  Stretch<PooledAxis, Range> row_cells_;
  Stretch<PooledAxis, int64_t> row_counts_;
  int64_t left_ = -1;
  int64_t count_ = 0;
  int64_t first_ = 0;
  int64_t length_ = 0;
  Range inside_{0, 0};
};

}  // namespace

template <>
void AveragePoolForward<VECTOR_LEVEL>::Run(const AveragePool& pool, aclDataType type,
                                           const KernelArguments& arguments) {
  const Tiles tiles{pool.planes, pool.rows.pooled, pool.columns.pooled, WindowsOf(pool.columns)};
  const int64_t cells = MostCellsIn(pool.rows), columns = MostCellsIn(pool.columns);
  const double additions = static_cast<double>(pool.planes) * static_cast<double>(pool.rows.pooled) *
                           (static_cast<double>(cells) * static_cast<double>(pool.columns.size) +
                            static_cast<double>(columns) * static_cast<double>(pool.columns.pooled));
  VisitFloatType(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    VisitSumType<T>(cells + columns, [&](auto sum_tag) {
      using Rows = PooledRows<T, typename decltype(sum_tag)::Type>;
      const int64_t elements = pool.rows.size * pool.columns.size + pool.rows.pooled * pool.columns.pooled;
      // Some additions take as long as to read or write an element.
      const TileWork work{pool.planes * elements, sizeof(T), Rows::ScratchBytes(pool), additions / 8};
      ForTiles(arguments.pool, tiles, work, [&] { return Rows(pool, arguments); });
    });
  });
}

}  // namespace acl_host
