// The gradient of the logarithm of the sigmoid.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result, of the shape and type of self
// self        the tensor that the function was applied to
// buffer      any tensor; it is never read
// gradInput   the gradient of self, of its shape and type
ACLNN_API aclnnStatus aclnnLogSigmoidBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                              const aclTensor* buffer, aclTensor* gradInput,
                                                              uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnLogSigmoidBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                              aclrtStream stream);
