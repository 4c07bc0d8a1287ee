// The product of two matrices.
#pragma once

#include "aclnn/aclnn_base.h"

// self          (M, K)
// mat2          (K, N)
// out           (M, N)
// cubeMathType  how precisely matrix units multiply FLOAT: 0 as it is, 1 or 3 with fewer digits, 2 as FLOAT16
ACLNN_API aclnnStatus aclnnMmGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out,
                                              int8_t cubeMathType, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMm(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
