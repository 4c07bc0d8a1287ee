// Subtracts tensors.
#pragma once

#include "aclnn/aclnn_base.h"

// self   the minuend
// other  the subtrahend; both are broadcast and promoted
// alpha  what other is multiplied by
// out    the result, of the shape after broadcasting; its type may be any that the promoted type is cast to
ACLNN_API aclnnStatus aclnnSubGetWorkspaceSize(const aclTensor* self, const aclTensor* other, const aclScalar* alpha,
                                               aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSub(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
