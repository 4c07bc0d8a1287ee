// The gradient of softshrink, which moves numbers towards 0 by lambda.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result, of its type, which is broadcast with self
// self        the tensor that the function was applied to
// lambda      up to this distance from 0 the gradient is 0; not negative
// gradInput   the gradient of self, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnSoftshrinkBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                              const aclScalar* lambda, aclTensor* gradInput,
                                                              uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSoftshrinkBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                              aclrtStream stream);
