// Orders all boxes of a RoiAlign by image, computes their weights in batches, and adds them to the bands of their
// images.
#pragma once

#include <cstddef>
#include <cstdint>

#include "computation.h"
#include "families/roi_align/bands.h"
#include "families/roi_align/sampling.h"
#include "plan/plan.h"

namespace acl_host {

// The addresses of a plan's scratch memory.
struct RoiScratch {
  RoiBox* boxes;          // the caller's; the rest is for AddRoiBoxes
  int64_t* order;         // indices of boxes, by image and then in the given order
  int64_t* image_begins;  // the begin of each image in order, and the end
  std::byte* sums;        // of one band for each slot
};

using RoiAdd = decltype(AtVectorLevel<RoiAlignV2Backward>());

// Writes the whole gradient. slots is the number of threads that may work at once.
void AddRoiBoxes(const RoiAlign& roi, const RoiBands& bands, int64_t slots, RoiAdd add, const Launch& launch,
                 const RoiScratch& scratch);

}  // namespace acl_host
