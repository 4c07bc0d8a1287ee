// Multiplies tensors, or a tensor by a number.
#pragma once

#include "aclnn/aclnn_base.h"

// self   the first factor
// other  the second factor; both are broadcast and promoted
// out    the result, of the shape after broadcasting; its type may be any that the promoted type is cast to
ACLNN_API aclnnStatus aclnnMulGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                               uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMul(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

// self   the first factor
// other  the second factor
// out    the result, of the shape of self; its type may be any that the promoted type is cast to
ACLNN_API aclnnStatus aclnnMulsGetWorkspaceSize(const aclTensor* self, const aclScalar* other, aclTensor* out,
                                                uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMuls(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
