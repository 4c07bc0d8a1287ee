// The windows of a max pooling on a plane of its input.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "families/max_pool/pooling.h"

namespace acl_host {
namespace {

// Windows per block: whole rows, at least one.
constexpr int64_t kWindowsPerBlock = 2048;

// Rows [begin, end) of the windows of a plane.
struct Block {
  int64_t plane;
  int64_t begin;
  int64_t end;
};

// The rows of the input that a row of windows covers, without the padding; the windows begin at row top.
struct WindowRow {
  WindowRow(const MaxPool& pool, int64_t row)
      : top(row * pool.stride.height - pool.padding.height),
        begin(std::max<int64_t>(top, 0)),
        end(top + std::min(pool.kernel.height, pool.input.height - top)) {}

  int64_t top;
  int64_t begin;
  int64_t end;
};

int64_t Left(const MaxPool& pool, int64_t column) { return column * pool.stride.width - pool.padding.width; }

// The places of a block's windows, row by row, as 32-bit numbers, because these make longer vectors. Blocks begin with
// a row, so the table is the same for all blocks except for the first row.
struct WindowTable {
  explicit WindowTable(const MaxPool& pool)
      : fits(std::max({pool.input.height, pool.input.width, pool.kernel.height, pool.kernel.width}) < INT32_MAX / 4 &&
             BandRows(pool) * pool.input.width < INT32_MAX) {
    if (!fits) return;
    const int64_t rows = std::clamp<int64_t>(kWindowsPerBlock / pool.output.width, 1, pool.output.height);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < pool.output.width; ++column) {
        const int64_t left = Left(pool, column);
        const int64_t end = left + std::min(pool.kernel.width, pool.input.width - left);
        tops.push_back(static_cast<int32_t>(row * pool.stride.height));
        lefts.push_back(static_cast<int32_t>(left));
        firsts.push_back(static_cast<int32_t>(std::max<int64_t>(left, 0)));
        widths.push_back(static_cast<uint32_t>(end - std::max<int64_t>(left, 0)));
      }
    }
  }

  bool fits;                     // 32 bits are enough
  std::vector<int32_t> tops;     // relative to the block's first row
  std::vector<int32_t> lefts;    // may lie on padding
  std::vector<int32_t> firsts;   // the first column on the input
  std::vector<uint32_t> widths;  // of the part on the input
};

}  // namespace
}  // namespace acl_host
