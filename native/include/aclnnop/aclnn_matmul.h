// Products of matrices, whose batch axes are broadcast.
#pragma once

#include "aclnn/aclnn_base.h"

// self          (..., M, K), or (K), of up to 6 axes
// mat2          (..., K, N), or (K), of up to 6 axes
// out           (..., M, N), without the axis that a vector lacks
// cubeMathType  as of aclnnMm
ACLNN_API aclnnStatus aclnnMatmulGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out,
                                                  int8_t cubeMathType, uint64_t* workspaceSize,
                                                  aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMatmul(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
