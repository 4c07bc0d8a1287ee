// The gradient of hardshrink, which is 0 next to 0 and keeps all else.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result, which is broadcast with self
// self        the tensor that the function was applied to
// lambd       up to this distance from 0 the gradient is 0; not negative
// gradInput   the gradient of self, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnHardshrinkBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                              const aclScalar* lambd, aclTensor* gradInput,
                                                              uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnHardshrinkBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                              aclrtStream stream);
