// All boxes of a RoiAlign: ordered by image, weighed in batches and added to the bands of their images.
#pragma once

#include <cstddef>
#include <cstdint>

#include "computation.h"
#include "families/roi_align/bands.h"
#include "families/roi_align/sampling.h"
#include "plan/plan.h"

namespace acl_host {

// Where the scratch memory of a plan lies.
struct RoiScratch {
  RoiBox* boxes;          // given; the rest is for AddRoiBoxes
  int64_t* order;         // indices of boxes, by image and then as given
  int64_t* image_begins;  // in order, of each image, and the end
  std::byte* sums;        // of as many bands as there are slots
};

using RoiAdd = decltype(AtVectorLevel<RoiAlignV2Backward>());

// Writes the whole gradient. slots: threads that may work at once.
void AddRoiBoxes(const RoiAlign& roi, const RoiBands& bands, int64_t slots, RoiAdd add, const Launch& launch,
                 const RoiScratch& scratch);

}  // namespace acl_host
