// The gradient of SwiGLU, SiLU(A) * B of the halves A and B of a tensor.
#pragma once

#include "aclnn/aclnn_base.h"

// yGrad  the gradient of the result, shaped as x with half the size of dim
// x      the tensor that the function was applied to: A, then B, along dim
// dim    the axis that is halved; negative: counted from the end
// out    written all the same: the gradient of x
ACLNN_API aclnnStatus aclnnSwiGluGradGetWorkspaceSize(const aclTensor* yGrad, const aclTensor* x, int64_t dim,
                                                      const aclTensor* out, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSwiGluGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                      aclrtStream stream);
