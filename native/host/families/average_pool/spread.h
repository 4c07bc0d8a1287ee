// Spreads rows of windows over the columns: each cell is the sum of the shares of the windows that cover it.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "families/average_pool/computation.h"
#include "families/average_pool/windows.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// The windows of an axis, and the windows that cover each of its cells.
struct Axis {
  explicit Axis(const PooledAxis& axis) : windows(WindowsOf(axis)), covers(CoversOf(axis.size, windows)) {}

  [[nodiscard]] const Range& cover(int64_t cell) const { return covers[static_cast<size_t>(cell)]; }
  [[nodiscard]] int64_t count(int64_t window) const { return windows[static_cast<size_t>(window)].count; }

  // The largest number of windows that cover one cell.
  [[nodiscard]] int64_t MostCovers() const {
    int64_t most = 1;
    for (const Range& each : covers) most = std::max(most, each.size());
    return most;
  }

  std::vector<Window> windows;
  std::vector<Range> covers;
};

// The windows of a plane: the same for all planes.
struct Windows {
  explicit Windows(const AveragePool& pool)
      : divisor(static_cast<double>(pool.divisor)), depth(pool.depth), rows(pool.rows), columns(pool.columns) {
    for (const Window& window : columns.windows) {
      column_divisors.push_back(divisor == 0 ? static_cast<float>(window.count) : 1.0F);
    }
    if (pool.columns.kernel > 0 || columns.MostCovers() > 2 || pool.columns.pooled >= INT32_MAX) return;
    for (const Range& cover : columns.covers) {
      first.push_back(static_cast<int32_t>(cover.begin));
      second.push_back(static_cast<int32_t>(cover.size() == 2 ? cover.begin + 1 : pool.columns.pooled));
    }
  }

  // The divisor of a row of windows, without the factor of the columns.
  [[nodiscard]] double RowDivisor(int64_t slice, int64_t row) const {
    return divisor != 0 ? divisor : static_cast<double>(depth.count(slice)) * static_cast<double>(rows.count(row));
  }

  const double divisor;
  const Axis depth;
  const Axis rows;
  const Axis columns;
  std::vector<float> column_divisors;

  // For an axis with one or two windows on each cell: the windows of each cell of a row. A cell with one window has the
  // number of all windows as its second.
  std::vector<int32_t> first;
  std::vector<int32_t> second;
};

// Windows of one size over the axis with its padding: window i begins at cell i * stride of the padded axis.
struct PaddedRow {
  explicit PaddedRow(const PooledAxis& axis) {
    // If the padding is larger than the axis, the windows of each cell are added one by one.
    if (axis.kernel == 0 || axis.padding > axis.size) return;
    const int64_t cells = axis.size + axis.padding;
    stride = std::min(axis.stride, cells);  // a longer stride leaves one window
    kernel = std::min(axis.kernel, cells);  // with ceilMode a window may reach far beyond the padding
    const int64_t strides_of_window = (kernel + stride - 1) / stride;
    size = std::max((axis.pooled - 1 + strides_of_window) * stride, cells);
  }

  int64_t stride = 0;
  int64_t kernel = 0;
  int64_t size = 0;  // 0 if it is not spread in this way
};

// Spreads rows of windows for one thread, and keeps the last few.
template <typename T>
class SpreadRows {
 public:
  SpreadRows(const AveragePool& pool, const Windows& windows, const std::byte* grad_output)
      : pool_(pool),
        windows_(windows),
        grad_output_(grad_output),
        padded_(pool.columns),
        is_one_to_one_(pool.columns.kernel == 0 && pool.columns.pooled == pool.columns.size),
        spread_size_(std::max(padded_.size, pool.columns.size)),
        grads_(kConverts<T> ? static_cast<size_t>(pool.columns.pooled) : 0),
        shares_(static_cast<size_t>(pool.columns.pooled + 2 * kMargin)) {
    constexpr int64_t kMostPlaces = 128;
    const int64_t slices = PowerOfTwo(windows.depth.MostCovers());
    const int64_t rows = PowerOfTwo(windows.rows.MostCovers());
    if (slices <= kMostPlaces / rows) {
      slices_ = slices;
      rows_ = rows;
    }
    numbers_.resize(static_cast<size_t>(places()), -1);
    spread_.resize(static_cast<size_t>(places() * spread_size_));
  }

  [[nodiscard]] int64_t places() const { return slices_ * rows_; }

  // Returns each cell's sum of the shares of a row of windows. The result stays valid while other rows that cover the
  // same cells are made, unless there is only one place.
  const Wide<T>* Make(int64_t plane, int64_t slice, int64_t row) {
    const int64_t number = (plane * pool_.depth.pooled + slice) * pool_.rows.pooled + row;
    const auto place = static_cast<size_t>((slice & (slices_ - 1)) * rows_ + (row & (rows_ - 1)));
    Wide<T>* const memory = spread_.data() + place * static_cast<size_t>(spread_size_);
    Wide<T>* const spread = padded_.size > 0 ? memory + pool_.columns.padding : memory;
    if (numbers_[place] == number) return spread;
    numbers_[place] = number;
    const auto divisor = static_cast<Wide<T>>(windows_.RowDivisor(slice, row));
    const int64_t count = pool_.columns.pooled;
    const std::byte* const grad = grad_output_ + static_cast<size_t>(number * count) * sizeof(T);
    Wide<T>* const shares = is_one_to_one_ ? spread : shares_.data() + kMargin;
    if constexpr (kConverts<T>) {
      WidenRow<T>(grad, grads_.data(), count);
      Divide<float>(reinterpret_cast<const std::byte*>(grads_.data()), divisor, shares);
    } else {
      Divide<T>(grad, divisor, shares);
    }
    if (is_one_to_one_) {
      // The shares are the sums.
    } else if (padded_.size > 0) {
      AddWindows(memory);
    } else {
      windows_.first.empty() ? AddCovers(spread) : AddPairs(spread);
    }
    return spread;
  }

 private:
  // The least that is not below the number: dividing by others takes longer than spreading a short row.
  static int64_t PowerOfTwo(int64_t least) {
    int64_t power = 1;
    while (power < least && power <= INT64_MAX / 2) power *= 2;
    return power;
  }

  // Shares before the first window and after the last, which are 0.
  static constexpr int64_t kMargin = 2;

  template <typename Source>
  void Divide(const std::byte* __restrict grad, Wide<T> divisor, Wide<T>* __restrict shares) const {
    const int64_t count = pool_.columns.pooled;
    const float* __restrict const divisors = windows_.column_divisors.data();
    for (int64_t i = 0; i < count; ++i) shares[i] = LoadWide<Source>(grad, i) / (divisor * divisors[i]);
  }

  void AddPairs(Wide<T>* __restrict spread) const {
    const Wide<T>* __restrict const shares = shares_.data() + kMargin;
    const int32_t* __restrict const first = windows_.first.data();
    const int32_t* __restrict const second = windows_.second.data();
    const int64_t width = pool_.columns.size;
    for (int64_t x = 0; x < width; ++x) spread[x] = shares[first[x]] + shares[second[x]];
  }

  // Gathering the windows of each cell would take several times as long.
  void AddWindows(Wide<T>* row) const {
    const int64_t stride = padded_.stride;
    const int64_t kernel = padded_.kernel;
    const auto are = [=](int64_t a_stride, int64_t a_kernel) { return stride == a_stride && kernel == a_kernel; };
    if (are(1, 3)) return WriteWindows<1, 3>(row);
    if (are(2, 2)) return WriteWindows<2, 2>(row);
    if (are(2, 3)) return WriteWindows<2, 3>(row);
    if (are(3, 3)) return WriteWindows<3, 3>(row);
    // Adds one stride's length of each window at a time.
    std::fill(row, row + padded_.size, Wide<T>{});
    for (int64_t begin = 0; begin < kernel; begin += stride) {
      const int64_t cells = std::min(stride, kernel - begin);
      switch (cells == stride ? stride : 0) {
        case 1:
          AddPart<1>(row + begin);
          break;
        case 2:
          AddPart<2>(row + begin);
          break;
        case 3:
          AddPart<3>(row + begin);
          break;
        default:
          for (int64_t cell = 0; cell < cells; ++cell) AddStrided(row + begin + cell, stride);
      }
    }
  }

  // The usual windows: writes each cell once, in loops that the compiler vectorises. Cells behind the windows stay 0.
  template <int64_t stride, int64_t kernel>
  void WriteWindows(Wide<T>* __restrict row) const {
    constexpr int64_t kMostBefore = (kernel - 1) / stride;  // earlier windows that cover a cell
    static_assert(stride <= kernel && kMostBefore <= kMargin);
    const Wide<T>* __restrict const shares = shares_.data() + kMargin;
    const int64_t count = pool_.columns.pooled + kMostBefore;
    for (int64_t window = 0; window < count; ++window) {
      for (int64_t cell = 0; cell < stride; ++cell) {
        Wide<T> sum = shares[window];
        for (int64_t before = 1; before * stride + cell < kernel; ++before) sum += shares[window - before];
        row[window * stride + cell] = sum;
      }
    }
  }

  template <int64_t stride>
  void AddPart(Wide<T>* __restrict row) const {
    const Wide<T>* __restrict const shares = shares_.data() + kMargin;
    const int64_t count = pool_.columns.pooled;
    for (int64_t window = 0; window < count; ++window) {
      for (int64_t cell = 0; cell < stride; ++cell) row[window * stride + cell] += shares[window];
    }
  }

  void AddStrided(Wide<T>* __restrict row, int64_t stride) const {
    const Wide<T>* __restrict const shares = shares_.data() + kMargin;
    const int64_t count = pool_.columns.pooled;
    for (int64_t window = 0; window < count; ++window) row[window * stride] += shares[window];
  }

  void AddCovers(Wide<T>* spread) const {
    for (int64_t x = 0; x < pool_.columns.size; ++x) {
      const Range& cover = windows_.columns.cover(x);
      Wide<T> sum{};
      for (int64_t window = cover.begin; window < cover.end; ++window)
        sum += shares_[static_cast<size_t>(window + kMargin)];
      spread[x] = sum;
    }
  }

  const AveragePool& pool_;
  const Windows& windows_;
  const std::byte* const grad_output_;
  const PaddedRow padded_;
  const bool is_one_to_one_;  // whether each column is a window of its own
  const int64_t spread_size_;
  int64_t slices_ = 1;
  int64_t rows_ = 1;
  std::vector<Wide<T>> grads_;  // a row of float16, widened
  std::vector<Wide<T>> shares_;
  std::vector<int64_t> numbers_;  // the row of windows in each place
  std::vector<Wide<T>> spread_;
};

}  // namespace
}  // namespace acl_host
