// The gradient of the logistic sigmoid.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of output; both are broadcast and promoted
// output      what the function returned
// gradInput   the gradient of what the function was applied to, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnSigmoidBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* output,
                                                           aclTensor* gradInput, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSigmoidBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream);
