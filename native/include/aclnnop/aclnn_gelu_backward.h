// The gradient of GELU in the approximation by a hyperbolic tangent.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result; it and self are broadcast and promoted
// self        the tensor that the function was applied to
// gradInput   written all the same: the gradient of self, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnGeluBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                        const aclTensor* gradInput, uint64_t* workspaceSize,
                                                        aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnGeluBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                        aclrtStream stream);
