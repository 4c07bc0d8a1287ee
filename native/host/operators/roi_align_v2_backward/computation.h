// Adds boxes to a band of RoiAlign's gradient.
//
// Weights and cells of a box are the same for all channels. So the sums of a band hold the channels of a cell side by
// side, and one vector operation adds to a cell in all of them. When all boxes are added, the sums are written as rows
// of planes.
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

// sums: RoiSumBytes of memory. boxes: of the band's image, in order. A fresh band has no values yet; any other is added
// to.
template <VectorLevel>
struct RoiAlignV2Backward {
  static void Run(const RoiPlanes& planes, const RoiBand& band, int64_t lanes, std::byte* sums,
                  const RoiWeighted* boxes, const RoiWeighted* boxes_end, bool fresh);
};

}  // namespace acl_host
