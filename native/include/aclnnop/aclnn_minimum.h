// The smaller of two tensors' elements; NaN if one of them is.
#pragma once

#include "aclnn/aclnn_base.h"

// self   the first operand
// other  the second operand; both are broadcast and promoted
// out    the result, of the shape after broadcasting; its type may be any that the promoted type is cast to
ACLNN_API aclnnStatus aclnnMinimumGetWorkspaceSize(const aclTensor* self, const aclTensor* other, aclTensor* out,
                                                   uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMinimum(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream);
