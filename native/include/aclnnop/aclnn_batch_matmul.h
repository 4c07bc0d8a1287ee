// Products of matrices, one for each of a batch.
#pragma once

#include "aclnn/aclnn_base.h"

// self          (B, M, K), or (1, M, K) for all of the batch
// mat2          (B, K, N), or (1, K, N) for all of the batch
// out           (B, M, N)
// cubeMathType  as of aclnnMm
ACLNN_API aclnnStatus aclnnBatchMatMulGetWorkspaceSize(const aclTensor* self, const aclTensor* mat2, aclTensor* out,
                                                       int8_t cubeMathType, uint64_t* workspaceSize,
                                                       aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnBatchMatMul(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       aclrtStream stream);
