// Whether the elements of a tensor are less than a number or equal to it.
#pragma once

#include "aclnn/aclnn_base.h"

// self   the tensor
// other  the number that its elements are compared with; both are promoted
// out    the result, of the shape of self, BOOL or a type that BOOL is cast to
ACLNN_API aclnnStatus aclnnLeScalarGetWorkspaceSize(const aclTensor* self, const aclScalar* other, aclTensor* out,
                                                    uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnLeScalar(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                    aclrtStream stream);
