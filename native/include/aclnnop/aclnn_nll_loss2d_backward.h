// The gradient of the negative log likelihood of a class for each pixel.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput   the gradient of the loss: of each pixel, shaped as target, or one number
// self         the logarithms of the probabilities, (N, C, H, W), of which only the shape counts
// target       the class of each pixel, (N, H, W); INT64, INT32 or UINT8
// weight       of each class, C elements
// reduction    0: none, 1: mean, 2: sum
// ignoreIndex  the target of pixels that do not count
// totalWeight  an input all the same: the sum of the weights of all targets; for the mean, one number
// out          the gradient, shaped as self
ACLNN_API aclnnStatus aclnnNLLLoss2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                             const aclTensor* target, const aclTensor* weight,
                                                             int64_t reduction, int64_t ignoreIndex,
                                                             aclTensor* totalWeight, aclTensor* out,
                                                             uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnNLLLoss2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);
