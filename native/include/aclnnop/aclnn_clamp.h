// Limits the elements of a tensor. NaN remains.
#pragma once

#include "aclnn/aclnn_base.h"

// self          the tensor
// clipValueMin  the least value, or null for no lower limit
// clipValueMax  the largest value, or null for no upper limit; one of both must be given
// out           the result, of the shape of self
ACLNN_API aclnnStatus aclnnClampGetWorkspaceSize(const aclTensor* self, const aclScalar* clipValueMin,
                                                 const aclScalar* clipValueMax, aclTensor* out, uint64_t* workspaceSize,
                                                 aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnClamp(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
