// Orders all boxes of a RoiAlign by image, computes their weights in batches, and adds them to the blocks of their
// images.
#pragma once

#include <cstddef>
#include <cstdint>

#include "blocks.h"
#include "computation.h"
#include "plan/plan.h"
#include "sampling.h"

namespace acl_host {

// The addresses of a plan's scratch memory.
struct RoiScratch {
  int32_t* order;   // indices of boxes, by image and then in the given order
  std::byte* sums;  // of one block for each slot
};

using RoiAdd = decltype(AtVectorLevel<RoiAlignV2Backward>());

// Writes the whole gradient. slots is the number of threads that may work at once. Throws if the boxes have more
// samples than a device would visit in time.
void AddRoiBoxes(const RoiAlign& roi, const RoiBlocks& blocks, int64_t slots, RoiAdd add,
                 const KernelArguments& arguments, const RoiScratch& scratch);

}  // namespace acl_host
