// SwiGLU, SiLU(A) * B of the halves A and B of a tensor.
#pragma once

#include "aclnn/aclnn_base.h"

// x    A, then B, along dim
// dim  the axis that is halved; negative: counted from the end
// out  written all the same: the result, shaped as x with half the size of dim
ACLNN_API aclnnStatus aclnnSwiGluGetWorkspaceSize(const aclTensor* x, int64_t dim, const aclTensor* out,
                                                  uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSwiGlu(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
