// Sums of the products of many tiles: kTilesOfSum in float, and the sums of such in double.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "families/attention/computation.h"

namespace acl_host {
namespace {

// The first sum of a row has `row_bytes` to that of the next. Sums of few tiles have no totals, and the same bits.
struct LongSums {
  std::byte* first;
  int64_t row_bytes;
  int64_t rows;
  int64_t depth;
  double* totals;

  void Begin() const {
    if (totals != nullptr) std::fill_n(totals, rows * depth, 0.0);
  }

  void SetZeros() const {
    for (int64_t row = 0; row < rows; ++row) std::memset(RowAt(row), 0, static_cast<size_t>(depth) * sizeof(float));
  }

  // Of the tile of this number.
  void Added(int64_t number) const {
    if (totals == nullptr || (number + 1) % kTilesOfSum != 0) return;
    for (int64_t row = 0; row < rows; ++row) {
      const float* const sums = RowAt(row);
      double* const to = totals + row * depth;
      for (int64_t i = 0; i < depth; ++i) to[i] += double{sums[i]};
    }
    SetZeros();
  }

  void Finish() const {
    if (totals == nullptr) return;
    for (int64_t row = 0; row < rows; ++row) {
      float* const sums = RowAt(row);
      const double* const from = totals + row * depth;
      for (int64_t i = 0; i < depth; ++i) sums[i] = static_cast<float>(from[i] + double{sums[i]});
    }
  }

 private:
  [[nodiscard]] float* RowAt(int64_t row) const { return reinterpret_cast<float*>(first + row * row_bytes); }
};

}  // namespace
}  // namespace acl_host
