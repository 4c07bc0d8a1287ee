// Divides tensors, or a tensor by a number. Integers are divided as FLOAT.
#pragma once

#include "aclnn/aclnn_base.h"

// self   the dividend
// other  the divisor; both are broadcast and promoted
// out    the result, of the shape after broadcasting and a floating-point type
ACLNN_API aclnnStatus aclnnDivGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                               uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnDiv(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

// self   the dividend
// other  the divisor
// out    the result, of the shape of self and a floating-point type
ACLNN_API aclnnStatus aclnnDivsGetWorkspaceSize(const aclTensor* self, const aclScalar* other, aclTensor* out,
                                                uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnDivs(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
