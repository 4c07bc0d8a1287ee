// Where the points of a grid lie in an image.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "computation.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// The points that are looked at together.
constexpr int64_t kPoints = 128;

// Farther away than any image's edge.
constexpr int kOutside = -100;

// Of points along one axis: their places, where cells have whole numbers, and the derivatives of these by the grid.
template <typename F>
struct Places {
  F at[kPoints];
  F slope[kPoints];
};

// One axis of an image. Loops decide nothing that is the same for all points, so that they use vectors.
template <typename F>
class SampledAxis {
 public:
  SampledAxis(int64_t size, const GridSampling& sampling)
      : size_(static_cast<F>(size)),
        last_(static_cast<F>(size - 1)),
        align_corners_(sampling.align_corners),
        padding_(sampling.padding) {}

  // What is at no number, as a reflection of infinity, is outside.
  void Find(const F* values, int64_t count, Places<F>& places) const {
    const F size = size_;
    const F last = last_;
    for (int64_t i = 0; i < count; ++i) {
      places.at[i] = align_corners_ ? (values[i] + 1) / 2 * last : ((values[i] + 1) * size - 1) / 2;
      places.slope[i] = (align_corners_ ? last : size) / 2;
    }
    if (padding_ == SamplingPadding::kReflection) Reflect(count, places);
    if (padding_ != SamplingPadding::kZeros) Clip(count, places);
    constexpr F kMost = static_cast<F>(std::numeric_limits<int32_t>::max() - 1);
    for (int64_t i = 0; i < count; ++i) places.at[i] = std::abs(places.at[i]) < kMost ? places.at[i] : F{kOutside};
  }

 private:
  void Clip(int64_t count, Places<F>& places) const {
    const F last = last_;
    for (int64_t i = 0; i < count; ++i) {
      const F at = places.at[i];
      places.slope[i] = at <= 0 || at >= last ? F{0} : places.slope[i];
      places.at[i] = at <= 0 ? F{0} : at >= last ? last : at;
    }
  }

  // At the outer edges of the outer cells, or at their centres.
  void Reflect(int64_t count, Places<F>& places) const {
    const F span = align_corners_ ? last_ : size_;
    const F low = align_corners_ ? F{0} : F{-0.5};
    if (span == 0) return;  // They are at 0, or at no number.
    int64_t far = 0;
    for (int64_t i = 0; i < count; ++i) {
      const F distance = places.at[i] - low;
      places.slope[i] = distance < 0 ? -places.slope[i] : places.slope[i];
      places.at[i] = std::abs(distance);
      far += places.at[i] < span ? 0 : 1;
    }
    for (int64_t i = 0; far > 0 && i < count; ++i) {
      const F distance = places.at[i];
      if (distance < span) continue;
      places.at[i] = std::fmod(distance, span);
      if (std::fmod(std::floor(distance / span), F{2}) == 0) continue;
      places.at[i] = span - places.at[i];
      places.slope[i] = -places.slope[i];
    }
    for (int64_t i = 0; i < count; ++i) places.at[i] += low;
  }

  const F size_;
  const F last_;
  const bool align_corners_;
  const SamplingPadding padding_;
};

// Along x, y and, in a volume, z.
template <typename F, int kAxes>
struct Points {
  Places<F> along[kAxes];
};

// Finds some points, of which the first has grid's elements from kAxes * first on.
template <typename T, int kAxes>
void FindPoints(const GridSampling& sampling, const std::byte* grid, int64_t first, int64_t count,
                Points<Wide<T>, kAxes>& points) {
  using F = Wide<T>;
  F values[kAxes * kPoints];
  F along[kPoints];
  WidenRow<T>(grid + kAxes * first * int64_t{sizeof(T)}, values, kAxes * count);
  for (int axis = 0; axis < kAxes; ++axis) {
    for (int64_t i = 0; i < count; ++i) along[i] = values[kAxes * i + axis];
    SampledAxis<F>(sampling.sizes[axis], sampling).Find(along, count, points.along[axis]);
  }
}

}  // namespace
}  // namespace acl_host
