// The padded cells that are copies of a cell, by the rule of the padding.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "families/pad/computation.h"
#include "tensors/axes.h"

namespace acl_host {
namespace {

// The copies of one cell: up to three ranges, in ascending order.
class Copies {
 public:
  Copies(PadRule rule, const PaddedAxis& axis, int64_t cell) {
    rule == PadRule::kReplication ? Replicate(axis, cell) : Reflect(axis, cell);
  }

  [[nodiscard]] int64_t count() const { return count_; }
  // The first copy of a cell that has copies.
  [[nodiscard]] int64_t first() const { return ranges_[0].begin; }

  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (size_t range = 0; range < used_; ++range) {
      for (int64_t copy = ranges_[range].begin; copy < ranges_[range].end; ++copy) visit(copy);
    }
  }

 private:
  // A border cell is copied to all cells that were added beside it.
  void Replicate(const PaddedAxis& axis, int64_t cell) {
    const int64_t begin = cell == 0 ? 0 : cell + axis.before;
    const int64_t end = cell == axis.size - 1 ? axis.padded : cell + axis.before + 1;
    Add({std::clamp<int64_t>(begin, 0, axis.padded), std::clamp<int64_t>(end, 0, axis.padded)});
  }

  // Each border mirrors all other cells; no padding reaches the other border.
  void Reflect(const PaddedAxis& axis, int64_t cell) {
    if (cell > 0) AddOne(axis, axis.before - cell);
    AddOne(axis, axis.before + cell);
    if (cell < axis.size - 1) AddOne(axis, axis.before + 2 * (axis.size - 1) - cell);
  }

  void AddOne(const PaddedAxis& axis, int64_t copy) {
    if (0 <= copy && copy < axis.padded) Add({copy, copy + 1});
  }

  void Add(const Range& range) {
    if (range.size() == 0) return;
    ranges_[used_++] = range;
    count_ += range.size();
  }

  std::array<Range, 3> ranges_;
  size_t used_ = 0;
  int64_t count_ = 0;
};

// The cells that are not cropped.
Range OwnCells(const PaddedAxis& axis) {
  const int64_t begin = std::max<int64_t>(0, -axis.before);
  return {begin, std::max(begin, std::min(axis.size, axis.padded - axis.before))};
}

// The run of those cells that have no other copy: most of them.
Range MovedCells(PadRule rule, const PaddedAxis& axis) {
  const int64_t after = axis.padded - axis.size - axis.before;
  const bool reflects = rule == PadRule::kReflection;
  const int64_t first = reflects && axis.before > 0 ? axis.before + 1 : 1;
  const int64_t begin = axis.before == 0 ? 0 : std::max(first, -axis.before);
  const int64_t last = reflects && after > 0 ? axis.size - 1 - after : axis.size - 1;
  const int64_t end = after == 0 ? axis.size : std::min(last, axis.padded - axis.before);
  return {begin, std::max(begin, end)};
}

}  // namespace
}  // namespace acl_host
