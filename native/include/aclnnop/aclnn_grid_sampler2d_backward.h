// The gradients of sampling an image at the points of a grid.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput          the gradient of the samples, (N, C, oH, oW)
// input               the image that was sampled, (N, C, H, W)
// grid                the points as x and y, (N, oH, oW, 2); -1 and 1 are the edges of the image
// interpolationMode   0: bilinear, 1: nearest
// paddingMode         outside the image there are 0: zeros, 1: its nearest cells, 2: its reflection
// alignCorners        -1 and 1 are the centres of the outer cells
// outputMask          whether inputGrad and gridGrad are wanted; without a mask nothing is done
// inputGrad           the gradient of input; never null, and untouched if it is not wanted
// gridGrad            the gradient of grid, in the same way
ACLNN_API aclnnStatus aclnnGridSampler2DBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* input,
                                                                 const aclTensor* grid, int64_t interpolationMode,
                                                                 int64_t paddingMode, bool alignCorners,
                                                                 const aclBoolArray* outputMask, aclTensor* inputGrad,
                                                                 aclTensor* gridGrad, uint64_t* workspaceSize,
                                                                 aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnGridSampler2DBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                 aclrtStream stream);
