// Checks the boxes of RoI align and counts the work that they ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace aclgrad {

// The parameters of RoI align. A box is a row of five numbers: image, x1, y1, x2, y2. With a number of images, every
// box has one of these, and samples: a device writes nothing for others.
struct RoiAlign {
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t pooled_height;
  int64_t pooled_width;
  float spatial_scale;
  int64_t sampling_ratio;
  bool aligned;
  std::optional<int64_t> images;
};

// Throws InvalidValue for a box that is not finite after scaling, or that a device writes nothing for. The boxes are of
// float32, or of float16 if their items have two bytes. Returns a bound on the work that the boxes ask for,
// in elementary steps: bilinear samples, cells that a separable kernel passes over, and the preparation of both axes. A
// double, because it may exceed 64 bits.
[[nodiscard]] double CountWork(const void* boxes, std::size_t count, const RoiAlign& roi_align,
                               std::size_t item_bytes = sizeof(float));

}  // namespace aclgrad
