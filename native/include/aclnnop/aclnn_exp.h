// The exponential function of each element. Of integers it is computed in FLOAT.
#pragma once

#include "aclnn/aclnn_base.h"

// self  the exponents
// out   the result, of the shape of self and of a type that it is cast to
ACLNN_API aclnnStatus aclnnExpGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                               aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnExp(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
