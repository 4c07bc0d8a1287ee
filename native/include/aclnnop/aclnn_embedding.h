// Rows of a weight, looked up by their numbers.
#pragma once

#include "aclnn/aclnn_base.h"

// weight   the rows; of rank 2
// indices  INT32 or INT64, from 0 to the rows of weight; no device looks whether they are in that range
// out      of the type of weight, with the shape of indices and a row for each
ACLNN_API aclnnStatus aclnnEmbeddingGetWorkspaceSize(const aclTensor* weight, const aclTensor* indices,
                                                     const aclTensor* out, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnEmbedding(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     const aclrtStream stream);
