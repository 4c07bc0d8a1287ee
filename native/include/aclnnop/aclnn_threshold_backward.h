// The gradient of a threshold, below which the function is constant; of ReLU with the threshold 0.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result; it and self are broadcast
// self        the tensor that the function was applied to, or the result of ReLU
// threshold   the largest number whose gradient is 0
// out         the gradient of self, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnThresholdBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                             const aclScalar* threshold, aclTensor* out,
                                                             uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnThresholdBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);
