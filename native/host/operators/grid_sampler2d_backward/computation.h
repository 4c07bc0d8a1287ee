#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// What lies outside the image.
enum class SamplingPadding { kZeros, kBorder, kReflection };

// An image's sizes, H and W, are not 0.
struct GridSampling {
  int64_t images;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t points;  // of an image
  bool nearest;    // otherwise bilinear
  SamplingPadding padding;
  bool align_corners;
  bool wants_input_grad;
  bool wants_grid_grad;
  int64_t group;  // channels that a thread adds up together
  int64_t band;   // cells of a plane that it adds up together: all if there are several channels
  int64_t slots;  // groups or bands that may be added up at once, if their sums need memory

  [[nodiscard]] int64_t plane() const { return height * width; }
  [[nodiscard]] int64_t groups() const { return (channels - 1) / group + 1; }
  [[nodiscard]] int64_t bands() const { return (plane() - 1) / band + 1; }
};

// gradOutput, input, grid -> those of inputGrad and gridGrad that are wanted, all of one floating-point type. For types
// of 16 bits, inputGrad needs scratch memory for the float sums of all slots.
template <VectorLevel>
struct GridSampler2dBackward {
  static void Run(const GridSampling& sampling, aclDataType type, const Launch& launch);
};

}  // namespace acl_host
