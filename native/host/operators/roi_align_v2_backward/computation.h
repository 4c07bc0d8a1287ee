// Adds boxes to a band of RoiAlign's gradient.
//
// The weights and cells of a box are the same for all channels. So the channels of a cell lie side by side in the sums
// of a band, and one vector operation adds to all of them. When all boxes are added, the sums are written as rows of
// planes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "families/roi_align/bands.h"
#include "families/roi_align/sampling.h"
#include "plan/vector_levels.h"

namespace acl_host {

struct RoiPlanes {
  const RoiAlign& roi;
  const std::byte* grad_output;
  std::byte* grad_input;
};

// sums has RoiSumBytes of memory. boxes are those of the band's image, in order. A fresh band has no values yet; boxes
// are added to any other.
template <VectorLevel>
struct RoiAlignV2Backward {
  static void Run(const RoiPlanes& planes, const RoiBand& band, int64_t lanes, std::byte* sums,
                  const RoiWeighted* boxes, const RoiWeighted* boxes_end, bool fresh);
};

}  // namespace acl_host
