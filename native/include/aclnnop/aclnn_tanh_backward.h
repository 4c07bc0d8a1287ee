// The gradient of the hyperbolic tangent.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of output; both are broadcast
// output      what the function returned
// gradInput   the gradient of what the function was applied to, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnTanhBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* output,
                                                        aclTensor* gradInput, uint64_t* workspaceSize,
                                                        aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnTanhBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                        aclrtStream stream);
