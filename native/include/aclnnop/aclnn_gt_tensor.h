// Whether the elements of one tensor are greater than those of another.
#pragma once

#include "aclnn/aclnn_base.h"

// self   the first tensor
// other  the second tensor; both are broadcast and promoted
// out    the result, of the shape after broadcasting, BOOL or a type that BOOL is cast to
ACLNN_API aclnnStatus aclnnGtTensorGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                                    uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnGtTensor(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                    aclrtStream stream);
