// Softmax along an axis.
#pragma once

#include "aclnn/aclnn_base.h"

// self  any shape of up to 8 dims
// dim   the dim whose powers of e are divided by their sum; a negative one counts from the last
// out   the result, shaped as self
ACLNN_API aclnnStatus aclnnSoftmaxGetWorkspaceSize(const aclTensor* self, int64_t dim, aclTensor* out,
                                                   uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSoftmax(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream);
