#pragma once

#include <cstdint>

#include "blocks.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"
#include "sampling.h"

namespace acl_host {

// gradOutput and boxes -> the gradient. slots is the number of threads that may work at once. The scratch has room for
// the indices of all boxes, of 32 bits, and for the sums of one block for each slot; both begin at the first multiple
// of kRoiSumAlignment. Throws if the boxes have more samples than a device would visit in time.
template <VectorLevel>
struct RoiAlignV2Backward {
  static void Run(const RoiAlign& roi, const RoiBlocks& blocks, int64_t slots, const KernelArguments& arguments);
};

}  // namespace acl_host
