// The sum of a matrix and of the product of two others, each with a factor.
#pragma once

#include "aclnn/aclnn_base.h"

// self          of one or two axes; it is broadcast to (M, N)
// mat1          (M, K)
// mat2          (K, N)
// beta          the factor of self; 0 leaves it out
// alpha         the factor of the product; 0 leaves it out
// out           (M, N)
// cubeMathType  as of aclnnMm
ACLNN_API aclnnStatus aclnnAddmmGetWorkspaceSize(const aclTensor* self, const aclTensor* mat1, const aclTensor* mat2,
                                                 const aclScalar* beta, const aclScalar* alpha, aclTensor* out,
                                                 int8_t cubeMathType, uint64_t* workspaceSize,
                                                 aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnAddmm(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
