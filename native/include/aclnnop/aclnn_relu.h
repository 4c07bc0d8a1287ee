// The positive part of each element. NaN remains.
#pragma once

#include "aclnn/aclnn_base.h"

// self  the tensor
// out   the result, of the shape and type of self
ACLNN_API aclnnStatus aclnnReluGetWorkspaceSize(const aclTensor* self, const aclTensor* out, uint64_t* workspaceSize,
                                                aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnRelu(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
