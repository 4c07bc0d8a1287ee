// The gradient of leaky ReLU.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput     the gradient of the result; it and self are broadcast and promoted
// self           the tensor that the function was applied to, or its result
// negativeSlope  what the function multiplies negative numbers by, any real number
// selfIsResult   whether self is the result; the slope is not negative then
// out            the gradient of the input, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnLeakyReluBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                             const aclScalar* negativeSlope, bool selfIsResult,
                                                             aclTensor* out, uint64_t* workspaceSize,
                                                             aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnLeakyReluBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);
