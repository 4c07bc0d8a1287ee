// GELU of each element, exact or approximated.
#pragma once

#include "aclnn/aclnn_base.h"

// x            the tensor
// approximate  1 for the approximation with tanh, any other value for the exact function
// y            the result, of the shape and type of x
ACLNN_API aclnnStatus aclnnGeluV2GetWorkspaceSize(const aclTensor* x, int64_t approximate, aclTensor* y,
                                                  uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnGeluV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
