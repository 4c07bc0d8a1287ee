// Adds up a row of windows over the columns of a tile: a cell gets the sum of the shares of the windows that cover it.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "families/average_pool/computation.h"
#include "families/average_pool/shares.h"
#include "families/average_pool/windows.h"
#include "plan/scratch.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

// How many rows of windows are kept: those of a depth times those of a height.
struct KeptRows {
  explicit KeptRows(const AveragePool& pool) {
    constexpr int64_t kMost = 128;
    const int64_t most_slices = PowerOfTwo(MostWindowsOver(pool.depth));
    const int64_t most_rows = PowerOfTwo(MostWindowsOver(pool.rows));
    if (most_slices > kMost / most_rows) return;
    slices = most_slices;
    rows = most_rows;
  }

  [[nodiscard]] int64_t count() const { return slices * rows; }

  int64_t slices = 1;
  int64_t rows = 1;

 private:
  // The least that is not below the number: dividing by others takes longer than computing a short row.
  static int64_t PowerOfTwo(int64_t least) {
    int64_t power = 1;
    while (power < least && power <= INT64_MAX / 2) power *= 2;
    return power;
  }
};

// Computes the sums of rows of windows for one thread, and keeps the last few.
template <typename T, typename Sum>
class ColumnSums {
 public:
  ColumnSums(const AveragePool& pool, const std::byte* grad_output)
      : pool_(pool),
        columns_(pool.columns),
        grad_output_(grad_output),
        kept_rows_(pool),
        is_one_to_one_(columns_.kernel == 0 && columns_.pooled == columns_.size),
        has_pairs_(MostWindowsOver(columns_) <= 2),
        row_size_(RowSize(pool)),
        depth_counts_(pool.depth, pool.depth.pooled, CountCells),
        row_counts_(pool.rows, pool.rows.pooled, CountCells),
        shares_(pool, MostShares(pool)),
        numbers_(static_cast<size_t>(kept_rows_.count())),
        sum_memory_(kept_rows_.count() * row_size_),
        sums_(sum_memory_.data()) {
    if (columns_.kernel > 0 || is_one_to_one_) return;
    const auto width = static_cast<size_t>(TileColumns(pool));
    windows_over_.resize(width);
    first_.resize(has_pairs_ ? width : 0);
    second_.resize(first_.size());
  }

  // A tile's columns: so many that the rows that are kept stay in a core's cache.
  [[nodiscard]] static int64_t TileColumns(const AveragePool& pool) {
    constexpr int64_t kMostBytes = int64_t{128} << 10;
    const int64_t kept = kMostBytes / (KeptRows(pool).count() * int64_t{sizeof(Sum)});
    const bool is_adaptive = pool.columns.kernel == 0;
    const int64_t windows_per_cell = is_adaptive ? pool.columns.pooled / pool.columns.size + 1 : 1;
    return std::clamp<int64_t>(std::min(kept, kMostColumns / windows_per_cell), 1, pool.columns.size);
  }

  // About the memory of one thread.
  [[nodiscard]] static int64_t ScratchBytes(const AveragePool& pool) {
    return (KeptRows(pool).count() * RowSize(pool) + MostShares(pool)) * int64_t{sizeof(Sum)} +
           MostShares(pool) * int64_t{sizeof(float)} + TileColumns(pool) * int64_t{sizeof(Range) + 2 * sizeof(int32_t)};
  }

  [[nodiscard]] int64_t kept_rows() const { return kept_rows_.count(); }

  // Goes on with the cells [left, right).
  void SetTile(int64_t left, int64_t right) {
    if (left == left_ && right == right_) return;
    left_ = left;
    right_ = right;
    std::fill(numbers_.begin(), numbers_.end(), -1);
    if (columns_.kernel > 0) {
      const int64_t stride = columns_.stride;
      blocks_ = {(left + columns_.padding) / stride, (right - 1 + columns_.padding) / stride + 1};
      // Short strides are written as a whole, from the one in which the tile begins.
      is_strided_ = stride <= kShortStride;
      tile_begin_ = is_strided_ ? left + columns_.padding - blocks_.begin * stride : 0;
      return;
    }
    if (is_one_to_one_) {
      windows_ = {left, right};
      return;
    }
    const int64_t width = right - left;
    FindWindowsOver(columns_, left, width, windows_over_.data());
    windows_ = {windows_over_.front().begin, windows_over_[static_cast<size_t>(width) - 1].end};
    if (has_pairs_) FindPairs(static_cast<size_t>(width));
  }

  // Returns each cell's sum of the shares of a row of windows. The result stays valid while other rows that cover the
  // same cells are made, unless only one row is kept.
  const Sum* Make(int64_t plane, int64_t slice, int64_t row) {
    const int64_t number = (plane * pool_.depth.pooled + slice) * pool_.rows.pooled + row;
    const int64_t kept_slice = slice & (kept_rows_.slices - 1);
    const auto kept = static_cast<size_t>(kept_slice * kept_rows_.rows + (row & (kept_rows_.rows - 1)));
    Sum* const memory = sums_ + kept * static_cast<size_t>(row_size_);
    if (numbers_[kept] != number) {
      numbers_[kept] = number;
      const double divisor =
          pool_.divisor != 0 ? static_cast<double>(pool_.divisor)
                             : static_cast<double>(depth_counts_.At(slice)) * static_cast<double>(row_counts_.At(row));
      Compute({grad_output_ + static_cast<size_t>(number * columns_.pooled) * sizeof(T), static_cast<Sum>(divisor)},
              memory);
    }
    return memory + tile_begin_;
  }

 private:
  static constexpr int64_t kMostColumns = 4096;
  // The windows of a tile, and the earlier ones that reach into it.
  static constexpr int64_t kMostShares = kMostColumns + 128;
  // Up to it, one loop goes over all strides of a tile.
  static constexpr int64_t kShortStride = 16;

  // Not inlined, so that finding a row that is kept stays short.
  [[gnu::noinline]] void Compute(const GradRow<Sum>& row, Sum* sums) {
    if (is_one_to_one_) {
      shares_.Divide(row, windows_, sums);
    } else if (columns_.kernel > 0) {
      AddWindows(row, sums);
    } else {
      has_pairs_ ? AddPairs(row, sums) : AddWindowsOver(row, sums);
    }
  }

  static int64_t MostShares(const AveragePool& pool) {
    return std::min(kMostShares, pool.columns.pooled + 2 * TileColumns(pool));
  }
  // Elements from one row that is kept to the next: short strides begin before a tile and end behind it.
  static int64_t RowSize(const AveragePool& pool) { return (TileColumns(pool) / 16 + 1) * 16 + 2 * kShortStride; }

  // The one or two windows over each cell. If one window covers it, second_ is the number of a share that is always 0.
  void FindPairs(size_t width) {
    for (size_t x = 0; x < width; ++x) {
      const Range& windows = windows_over_[x];
      first_[x] = static_cast<int32_t>(windows.begin - windows_.begin);
      second_[x] = static_cast<int32_t>(windows.size() == 2 ? first_[x] + 1 : windows_.size());
    }
  }

  // Only if a tile has one cell may its windows be too many to be divided at once.
  void AddWindowsOver(const GradRow<Sum>& row, Sum* sums) {
    const auto width = static_cast<size_t>(right_ - left_);
    std::fill_n(sums, width, Sum{});
    for (int64_t begin = windows_.begin; begin < windows_.end; begin += shares_.most()) {
      const Range windows{begin, std::min(begin + shares_.most(), windows_.end)};
      const Sum* const shares = shares_.Of(row, windows);
      for (size_t x = 0; x < width; ++x) {
        const int64_t end = std::min(windows_over_[x].end, windows.end);
        Sum sum = sums[x];
        for (int64_t window = std::max(windows_over_[x].begin, begin); window < end; ++window) {
          sum += shares[window - begin];
        }
        sums[x] = sum;
      }
    }
  }

  void AddPairs(const GradRow<Sum>& row, Sum* __restrict sums) {
    const Sum* __restrict const shares = shares_.Of(row, windows_);
    const int32_t* __restrict const first = first_.data();
    const int32_t* __restrict const second = second_.data();
    const int64_t width = right_ - left_;
    for (int64_t x = 0; x < width; ++x) sums[x] = shares[first[x]] + shares[second[x]];
  }

  // Windows of one size: window i begins at cell i * stride of the axis with its padding. Gathering the windows of each
  // cell would take several times as long, so one stride's length of each window is added at a time.
  void AddWindows(const GradRow<Sum>& grad, Sum* row) {
    const int64_t stride = columns_.stride;
    const int64_t kernel = columns_.kernel;
    const auto are = [=](int64_t a_stride, int64_t a_kernel) { return stride == a_stride && kernel == a_kernel; };
    if (are(1, 3)) return WriteWindows<1, 3>(grad, row);
    if (are(2, 2)) return WriteWindows<2, 2>(grad, row);
    if (are(2, 3)) return WriteWindows<2, 3>(grad, row);
    if (are(3, 3)) return WriteWindows<3, 3>(grad, row);
    std::fill_n(row, row_size_, Sum{});
    // Stride b of the row has part p of window b - p.
    const int64_t end = std::min((kernel - 1) / stride + 1, blocks_.end);
    const int64_t most_parts = shares_.most() - blocks_.size();
    for (int64_t begin = std::max<int64_t>(blocks_.begin - columns_.pooled + 1, 0); begin < end; begin += most_parts) {
      const int64_t last = std::min(begin + most_parts, end) - 1;
      const Sum* const first = shares_.OfAny(grad, {blocks_.begin - last, blocks_.end - begin});
      for (int64_t part = begin; part <= last; ++part) {
        const Sum* const shares = first + (last - part);
        const int64_t cells = std::min(stride, kernel - part * stride);
        is_strided_ ? AddPart(shares, cells, row) : AddRuns(shares, cells, row);
      }
    }
  }

  // The usual windows: writes each cell once, in loops that the compiler vectorises.
  template <int64_t stride, int64_t kernel>
  void WriteWindows(const GradRow<Sum>& grad, Sum* __restrict row) {
    constexpr int64_t kMostBefore = (kernel - 1) / stride;  // earlier windows that cover a cell
    static_assert(stride <= kernel);
    const Range windows{blocks_.begin - kMostBefore, blocks_.end};
    const Sum* __restrict const shares = shares_.OfAny(grad, windows) + kMostBefore;
    const int64_t count = blocks_.size();
    for (int64_t window = 0; window < count; ++window) {
      for (int64_t cell = 0; cell < stride; ++cell) {
        Sum sum = shares[window];
        for (int64_t before = 1; before * stride + cell < kernel; ++before) sum += shares[window - before];
        row[window * stride + cell] = sum;
      }
    }
  }

  // Adds the first cells of each stride.
  void AddPart(const Sum* shares, int64_t cells, Sum* row) const {
    switch (cells == columns_.stride ? cells : 0) {
      case 1:
        return AddStrides<1>(shares, row);
      case 2:
        return AddStrides<2>(shares, row);
      case 3:
        return AddStrides<3>(shares, row);
      default:
        for (int64_t cell = 0; cell < cells; ++cell) AddStrided(shares, row + cell);
    }
  }

  template <int64_t stride>
  void AddStrides(const Sum* __restrict shares, Sum* __restrict row) const {
    const int64_t count = blocks_.size();
    for (int64_t window = 0; window < count; ++window) {
      for (int64_t cell = 0; cell < stride; ++cell) row[window * stride + cell] += shares[window];
    }
  }

  void AddStrided(const Sum* __restrict shares, Sum* __restrict row) const {
    const int64_t count = blocks_.size();
    const int64_t stride = columns_.stride;
    for (int64_t window = 0; window < count; ++window) row[window * stride] += shares[window];
  }

  // Adds the first cells of each long stride, as far as they are in the tile, where the row begins.
  void AddRuns(const Sum* shares, int64_t cells, Sum* row) const {
    const int64_t tile_begin = left_ + columns_.padding;
    const int64_t tile_end = right_ + columns_.padding;
    for (int64_t block = blocks_.begin; block < blocks_.end; ++block) {
      const int64_t begin = block * columns_.stride;
      const int64_t end = cells < tile_end - begin ? begin + cells : tile_end;
      const Sum share = shares[block - blocks_.begin];
      for (int64_t cell = std::max(begin, tile_begin); cell < end; ++cell) row[cell - tile_begin] += share;
    }
  }

  const AveragePool& pool_;
  const PooledAxis& columns_;
  const std::byte* const grad_output_;
  const KeptRows kept_rows_;
  const bool is_one_to_one_;  // whether each column is a window of its own
  const bool has_pairs_;      // whether adaptive windows cover each cell at most twice
  const int64_t row_size_;
  Stretch<PooledAxis, int64_t> depth_counts_;
  Stretch<PooledAxis, int64_t> row_counts_;

  // The tile.
  int64_t left_ = 0;
  int64_t right_ = 0;
  Range blocks_{0, 0};   // strides of windows of one size
  Range windows_{0, 0};  // adaptive windows that cover it
  bool is_strided_ = false;
  int64_t tile_begin_ = 0;  // where the tile begins in a row of sums_

  Shares<T, Sum> shares_;
  std::vector<Range> windows_over_;
  std::vector<int32_t> first_;
  std::vector<int32_t> second_;
  std::vector<int64_t> numbers_;  // the rows of windows that are kept
  Scratch<Sum> sum_memory_;
  Sum* const sums_;
};

}  // namespace
}  // namespace acl_host
