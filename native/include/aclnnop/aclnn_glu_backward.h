// The gradient of GLU, A * sigmoid(B) of the halves A and B of a tensor.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOut  the gradient of the result, shaped as self with half the size of dim
// self     the tensor that the function was applied to: A, then B, along dim
// dim      the axis that is halved; negative: counted from the end
// out      written all the same: the gradient of self
ACLNN_API aclnnStatus aclnnGluBackwardGetWorkspaceSize(const aclTensor* gradOut, const aclTensor* self, int64_t dim,
                                                       const aclTensor* out, uint64_t* workspaceSize,
                                                       aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnGluBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       aclrtStream stream);
