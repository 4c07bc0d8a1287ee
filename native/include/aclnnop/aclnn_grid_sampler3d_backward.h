// The gradients of sampling a volume at the points of a grid.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput          the gradient of the samples, (N, C, oD, oH, oW)
// input               the volume that was sampled, (N, C, D, H, W)
// grid                the points as x, y and z, (N, oD, oH, oW, 3); -1 and 1 are the volume's edges
// interpolationMode   0: linear along each axis, 1: nearest
// paddingMode         outside the volume there are 0: zeros, 1: its nearest cells, 2: its reflection
// alignCorners        -1 and 1 are the centres of the outer cells
// outputMask          whether inputGrad and gridGrad are wanted; without a mask nothing is done
// inputGrad           the gradient of input; never null, and untouched if it is not wanted
// gridGrad            the gradient of grid, in the same way
ACLNN_API aclnnStatus aclnnGridSampler3DBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* input,
                                                                 const aclTensor* grid, int64_t interpolationMode,
                                                                 int64_t paddingMode, bool alignCorners,
                                                                 const aclBoolArray* outputMask, aclTensor* inputGrad,
                                                                 aclTensor* gridGrad, uint64_t* workspaceSize,
                                                                 aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnGridSampler3DBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                 aclrtStream stream);
