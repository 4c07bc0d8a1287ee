// The gradient of mish, x * tanh(softplus(x)).
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result, which is broadcast with self
// self        the tensor that the function was applied to
// gradInput   the gradient of self, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnMishBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                        aclTensor* gradInput, uint64_t* workspaceSize,
                                                        aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMishBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                        aclrtStream stream);
