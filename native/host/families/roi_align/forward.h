// RoI align itself: the function that the family's gradient belongs to.
#pragma once

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"
#include "sampling.h"

namespace acl_host {

// self and boxes -> the pooled boxes, all of FLOAT or of FLOAT16; zeros for boxes of unknown images. Throws if the
// boxes have more samples than a device would visit in time.
template <VectorLevel>
struct RoiAlignV2 {
  static void Run(const RoiAlign& roi, aclDataType type, const KernelArguments& arguments);
};

}  // namespace acl_host
