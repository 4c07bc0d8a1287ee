// Whether more points add to a cell than a sum in float32 may have. That is so of few images, so it is only noticed:
// the sums of such an image are made again in float64.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "plan/scratch.h"
#include "points.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

// Counts points by the cell before them. Cells of a large image may share counters, so the count of one is at most that
// of its counter. All points of an image are counted, whatever the division of its cells: the sums must not depend on
// it.
class Crowds {
 public:
  explicit Crowds(const GridSampling& sampling)
      : sampling_(sampling),
        most_(kMostFloatAdditions >> sampling.axes),
        counters_(Counters(sampling)),
        counts_(counters_) {}

  // Returns whether there may be a cell with too many: along each axis, it gets the points before it and those behind.
  template <typename F, int kAxes>
  [[nodiscard]] bool Add(const Points<F, kAxes>& points, int64_t count) {
    uint32_t cells[kPoints] = {};
    uint32_t inside[kPoints];
    std::fill_n(inside, count, 1U);
    for (int axis = kAxes - 1; axis >= 0; --axis) {
      const F* const at = points.along[axis].at;
      const auto size = static_cast<uint32_t>(sampling_.sizes[static_cast<size_t>(axis)]);
      const auto end = static_cast<F>(sampling_.sizes[static_cast<size_t>(axis)]);
      for (int64_t i = 0; i < count; ++i) {
        const F before = std::floor(at[i]);
        cells[i] = cells[i] * size + static_cast<uint32_t>(static_cast<int32_t>(before));
        inside[i] &= static_cast<uint32_t>(before >= -1) & static_cast<uint32_t>(before < end);
      }
    }
    uint8_t* const counts = counts_.data();
    const auto mask = static_cast<uint32_t>(counters_ - 1);
    bool has_many = false;
    for (int64_t i = 0; i < count; ++i) {
      uint8_t& counted = counts[cells[i] & mask];
      counted = static_cast<uint8_t>(counted + inside[i]);
      has_many |= counted > most_;
    }
    return has_many;
  }

 private:
  static_assert(kMostFloatAdditions / 4 + kPoints <= UINT8_MAX);  // in two dimensions

  // A power of two, and so many that points which are spread evenly fill a quarter of each.
  int64_t Counters(const GridSampling& sampling) const {
    constexpr int64_t kFewCounters = 65536;
    const int64_t enough = std::max(kFewCounters, 4 * (sampling.points / most_));
    int64_t counters = 1;
    while (counters < std::min(sampling.cells(), enough)) counters *= 2;
    return counters;
  }

  const GridSampling& sampling_;
  const int64_t most_;
  const int64_t counters_;
  const Scratch<uint8_t> counts_;
};

}  // namespace
}  // namespace acl_host
