// Adds boxes to a block of RoiAlign's gradient.
//
// The weights and cells of a box are the same for all channels. So the channels of a cell lie side by side in the sums
// of a block, and one vector operation adds to all of them. When all boxes are added, the sums are written as rows of
// planes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "blocks.h"
#include "plan/vector_levels.h"
#include "sampling.h"

namespace acl_host {

struct RoiPlanes {
  const RoiAlign& roi;
  const std::byte* grad_output;
  std::byte* grad_input;
};

// sums has RoiSumBytes of memory. boxes are those of the block's image, in order. If long_sums, a cell has more
// additions than a float32 may have. If fresh, overwrites the output; otherwise adds to it.
template <VectorLevel>
struct RoiAlignV2Backward {
  static void Run(const RoiPlanes& planes, const RoiBlock& block, int64_t lanes, std::byte* sums,
                  const RoiWeighted* boxes, const RoiWeighted* boxes_end, bool long_sums, bool fresh);
};

}  // namespace acl_host
