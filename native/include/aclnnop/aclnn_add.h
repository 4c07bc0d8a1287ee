// Adds tensors, or a number to a tensor.
#pragma once

#include "aclnn/aclnn_base.h"

// self   the first summand
// other  the second summand; both are broadcast and promoted
// alpha  what other is multiplied by
// out    the result, of the shape after broadcasting; its type may be any that the promoted type is cast to
ACLNN_API aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor* self, const aclTensor* other, const aclScalar* alpha,
                                               aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnAdd(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

// self   the first summand
// other  the second summand
// alpha  what other is multiplied by
// out    the result, of the shape of self; its type may be any that the promoted type is cast to
ACLNN_API aclnnStatus aclnnAddsGetWorkspaceSize(const aclTensor* self, const aclScalar* other, const aclScalar* alpha,
                                                aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnAdds(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
