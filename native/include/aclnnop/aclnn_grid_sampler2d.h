// Sampling images at the points of grids.
#pragma once

#include "aclnn/aclnn_base.h"

// input               the images, (N, C, H, W)
// grid                the points as x and y, (N, oH, oW, 2); -1 and 1 are the edges of the image
// interpolationMode   0: bilinear, 1: nearest, 2: bicubic
// paddingMode         outside the image there are 0: zeros, 1: its nearest cells, 2: its reflection
// alignCorners        -1 and 1 are the centres of the outer cells
// out                 the samples, (N, C, oH, oW)
ACLNN_API aclnnStatus aclnnGridSampler2DGetWorkspaceSize(const aclTensor* input, const aclTensor* grid,
                                                         int64_t interpolationMode, int64_t paddingMode,
                                                         bool alignCorners, aclTensor* out, uint64_t* workspaceSize,
                                                         aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnGridSampler2D(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                         aclrtStream stream);
