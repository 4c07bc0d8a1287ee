// The windows of a max pooling on a plane of its input.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "families/max_pool/computation.h"
#include "plan/scratch.h"

namespace acl_host {
namespace {

constexpr int64_t kWindowsPerBlock = 2048;

// Cells of a plane. Sums are numbered row by row; the last number is that of the cells elsewhere.
struct Cells {
  int64_t top;
  int64_t bottom;
  int64_t left;
  int64_t right;

  [[nodiscard]] int64_t height() const { return bottom - top; }
  [[nodiscard]] int64_t width() const { return right - left; }
  [[nodiscard]] int64_t none() const { return height() * width(); }
  [[nodiscard]] bool Holds(int64_t y, int64_t x) const { return top <= y && y < bottom && left <= x && x < right; }
};

// Windows of a plane that lie side by side in memory: whole rows, or a part of one.
struct Block {
  int64_t plane;
  int64_t row;
  int64_t rows;
  int64_t column;
  int64_t columns;

  [[nodiscard]] int64_t count() const { return rows * columns; }
  // The number of its first window, counted through all planes.
  [[nodiscard]] int64_t First(const MaxPool& pool) const {
    return (plane * pool.output.height + row) * pool.output.width + column;
  }
};

int64_t Top(const MaxPool& pool, int64_t row) { return row * pool.stride.height - pool.padding.height; }
int64_t Left(const MaxPool& pool, int64_t column) { return column * pool.stride.width - pool.padding.width; }

// The places of a block's windows, row by row, as 32-bit numbers, because these make longer vectors.
class WindowTable {
 public:
  explicit WindowTable(const MaxPool& pool)
      : fits(std::max({pool.input.height, pool.input.width, pool.kernel.height, pool.kernel.width}) < INT32_MAX / 4),
        most_windows(MostWindows(pool)),
        tops(most_windows),
        lefts(most_windows),
        firsts(most_windows),
        widths(most_windows),
        pool_(pool) {}

  // Finds the places, unless they are those of the block before: in other rows the windows lie side by side as well.
  void Assign(const Block& block) {
    if (!fits || (block.column == column_ && block.columns == columns_ && block.rows <= rows_)) return;
    column_ = block.column;
    columns_ = block.columns;
    rows_ = block.rows;
    for (int64_t row = 0; row < rows_; ++row) AssignRow(row);
  }

  const bool fits;             // 32 bits are enough
  const int64_t most_windows;  // of a block
  Scratch<int32_t> tops;       // relative to the block's first row
  Scratch<int32_t> lefts;      // may lie on padding
  Scratch<int32_t> firsts;     // the first column on the input
  Scratch<uint32_t> widths;    // of the part on the input

 private:
  static int64_t MostWindows(const MaxPool& pool) {
    const int64_t row = std::min(pool.output.width, kWindowsPerBlock);
    return std::min(kWindowsPerBlock / row, pool.output.height) * row;
  }

  void AssignRow(int64_t row) {
    const auto top = static_cast<int32_t>(row * pool_.stride.height);
    const auto begin = static_cast<int32_t>(Left(pool_, column_));
    const auto stride = static_cast<int32_t>(columns_ > 1 ? pool_.stride.width : 0);
    const auto kernel = static_cast<int32_t>(pool_.kernel.width);
    const auto width = static_cast<int32_t>(pool_.input.width);
    const int64_t first = row * columns_;
    int32_t* __restrict const row_tops = tops.data() + first;
    int32_t* __restrict const row_lefts = lefts.data() + first;
    int32_t* __restrict const row_firsts = firsts.data() + first;
    uint32_t* __restrict const row_widths = widths.data() + first;
    for (int32_t i = 0; i < static_cast<int32_t>(columns_); ++i) {
      const int32_t left = begin + i * stride;
      row_tops[i] = top;
      row_lefts[i] = left;
      row_firsts[i] = std::max(left, 0);
      row_widths[i] = static_cast<uint32_t>(std::min(left + kernel, width) - std::max(left, 0));
    }
  }

  const MaxPool& pool_;
  int64_t column_ = 0;
  int64_t columns_ = 0;
  int64_t rows_ = 0;
};

}  // namespace
}  // namespace acl_host
