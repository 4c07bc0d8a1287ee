// x * min(max(x + 3, 0), 6) / 6 of each element.
#pragma once

#include "aclnn/aclnn_base.h"

// self  the tensor
// out   the result, of the shape of self and of a type that it is cast to
ACLNN_API aclnnStatus aclnnHardswishGetWorkspaceSize(const aclTensor* self, const aclTensor* out,
                                                     uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnHardswish(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     aclrtStream stream);
