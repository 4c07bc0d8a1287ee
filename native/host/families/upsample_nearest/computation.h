#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// The rule that finds the copies of a cell, always in float32.
enum class NearestRule {
  kRatio,       // upsampled cell d is a copy of cell floor(d * (size / upsampled))
  kReciprocal,  // floor(d * (1 / scale)), or kRatio without a scale
  kScale,       // cell i has the copies from ceil(i * scale) up to ceil((i + 1) * scale)
};

// One axis; neither size is 0. Without a scale, which is above 0, it is upsampled / size.
struct UpsampledAxis {
  int64_t size;
  int64_t upsampled;
  NearestRule rule;
  float scale;
};

struct Upsampling {
  int64_t planes;
  UpsampledAxis rows;
  UpsampledAxis columns;
};

// gradOutput -> the gradient, both of a floating-point type of up to 32 bits.
template <VectorLevel>
struct UpsampleNearest2dBackward {
  static void Run(const Upsampling& upsampling, aclDataType type, const KernelArguments& arguments);
};

}  // namespace acl_host
