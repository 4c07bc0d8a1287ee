// The gradient of hard swish, x * min(max(x + 3, 0), 6) / 6.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result, shaped as self
// self        the tensor that the function was applied to
// out         the gradient of self
ACLNN_API aclnnStatus aclnnHardswishBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                             aclTensor* out, uint64_t* workspaceSize,
                                                             aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnHardswishBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);
