// The negative of each element.
#pragma once

#include "aclnn/aclnn_base.h"

// self  the tensor
// out   the result, of the shape of self and of a type that it is cast to
ACLNN_API aclnnStatus aclnnNegGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                               aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnNeg(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
