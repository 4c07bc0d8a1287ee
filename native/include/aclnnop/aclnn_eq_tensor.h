// Whether the elements of two tensors are equal.
#pragma once

#include "aclnn/aclnn_base.h"

// self   the first tensor
// other  the second tensor; both are broadcast and promoted
// out    the result, of the shape after broadcasting, BOOL or a type that BOOL is cast to
ACLNN_API aclnnStatus aclnnEqTensorGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                                    uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnEqTensor(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                    aclrtStream stream);
