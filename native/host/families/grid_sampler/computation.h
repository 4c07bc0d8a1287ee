// Sampling images, which are planes or volumes, at the points of grids, and its gradients.
#pragma once

#include <array>
#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// What lies outside the image.
enum class SamplingPadding { kZeros, kBorder, kReflection };

// An image is planes or volumes, one for each channel. Its sizes are not 0.
struct GridSampling {
  int axes;  // 2 or 3
  int64_t images;
  int64_t channels;
  std::array<int64_t, 3> sizes;  // along x, y and z; planes have the depth 1
  int64_t points;                // of an image
  bool nearest;                  // otherwise linear along each axis
  SamplingPadding padding;
  bool align_corners;
  bool wants_input_grad;
  bool wants_grid_grad;
  int64_t group;       // channels that a thread adds up together
  int64_t band;        // cells of a channel that it adds up together: all if there are several channels
  int64_t slots;       // groups or bands that may be added up at once, if their sums need memory
  int64_t slot_bytes;  // of that memory for each; 0: none is needed

  // Of a channel.
  [[nodiscard]] int64_t cells() const { return sizes[0] * sizes[1] * sizes[2]; }
  [[nodiscard]] int64_t groups() const { return (channels - 1) / group + 1; }
  [[nodiscard]] int64_t bands() const { return (cells() - 1) / band + 1; }
};

// gradOutput, input, grid -> those of inputGrad and gridGrad that are wanted, all of one floating-point type. The
// scratch memory has that of all slots.
template <VectorLevel>
struct GridSamplerBackward {
  static void Run(const GridSampling& sampling, aclDataType type, const KernelArguments& arguments);
};

// input, grid -> the samples of planes, all of one floating-point type.
template <VectorLevel>
struct GridSampler {
  static void Run(const GridSampling& sampling, aclDataType type, const KernelArguments& arguments);
};

}  // namespace acl_host
