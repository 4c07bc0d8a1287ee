// Checks the boxes of RoI align and counts the work that they ask for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aclgrad {

// The parameters of RoI align. A box is a row of five float32: image, x1, y1, x2, y2.
struct RoiAlign {
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t pooled_height;
  int64_t pooled_width;
  float spatial_scale;
  int64_t sampling_ratio;
  bool aligned;
};

// Throws InvalidValue for a box that is not finite after scaling. Returns a bound on the work that the boxes ask for,
// in elementary steps: bilinear samples, cells that a separable kernel passes over, and the preparation of both axes. A
// double, because it may exceed 64 bits.
[[nodiscard]] double CountWork(const void* boxes, std::size_t count, const RoiAlign& roi_align);

}  // namespace aclgrad
