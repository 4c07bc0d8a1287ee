// The gradient of hardsigmoid, which is x / 6 + 1 / 2 between -3 and 3.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result, of the shape of self
// self        the tensor that the function was applied to
// out         the gradient of self, of its shape
ACLNN_API aclnnStatus aclnnHardsigmoidBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                               aclTensor* out, uint64_t* workspaceSize,
                                                               aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnHardsigmoidBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                               aclrtStream stream);
