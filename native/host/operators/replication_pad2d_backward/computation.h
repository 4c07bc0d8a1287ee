#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// One axis before and after padding; neither size is 0.
struct PaddedAxis {
  int64_t size;
  int64_t before;  // cells put in front; negative, but not below -size: taken away
  int64_t padded;
};

struct ReplicationPad {
  int64_t planes;
  PaddedAxis rows;
  PaddedAxis columns;
};

// gradOutput -> the gradient, both of a floating-point or complex type.
template <VectorLevel>
struct ReplicationPad2dBackward {
  static void Run(const ReplicationPad& pad, aclDataType type, const Launch& launch);
};

}  // namespace acl_host
