#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// No size is 0.
struct AdaptivePool {
  int64_t planes;
  int64_t height;  // of the gradient
  int64_t width;
  int64_t pooled_height;  // of gradOutput
  int64_t pooled_width;
};

// gradOutput -> the gradient, both of a floating-point type of up to 32 bits.
template <VectorLevel>
struct AdaptiveAvgPool2dBackward {
  static void Run(const AdaptivePool& pool, aclDataType type, const Launch& launch);
};

}  // namespace acl_host
