// The gradient of SiLU, x * sigmoid(x).
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result, shaped as self
// self        the tensor that the function was applied to
// gradInput   the gradient of self
ACLNN_API aclnnStatus aclnnSiluBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                        aclTensor* gradInput, uint64_t* workspaceSize,
                                                        aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSiluBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                        aclrtStream stream);
