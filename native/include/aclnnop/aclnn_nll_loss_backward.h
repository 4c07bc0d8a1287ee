// The gradient of the negative log likelihood of a class for each sample.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput   the gradient of the loss: of each sample, (N), or one number
// self         the logarithms of the probabilities, (N, C) or (C), of which only the shape counts
// target       the class of each sample, (N) or (); INT64, INT32 or UINT8
// weight       of each class, (C)
// reduction    0: none, 1: mean, 2: sum
// ignoreIndex  the target of samples that do not count
// totalWeight  the sum of the weights of all targets, as the forward call gave it; for the mean, one number
// out          the gradient, shaped as self
ACLNN_API aclnnStatus aclnnNLLLossBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           const aclTensor* target, const aclTensor* weight,
                                                           int64_t reduction, int64_t ignoreIndex,
                                                           const aclTensor* totalWeight, aclTensor* out,
                                                           uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnNLLLossBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream);
