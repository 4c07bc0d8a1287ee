// Tensors one behind the other along an axis.
#pragma once

#include "aclnn/aclnn_base.h"

// tensors  of equal sizes in all other axes, and of any types that are promoted to one; those of shape [0] do not count
// dim      the axis; negative: from the last
// out      of a type that the promoted one is cast to, and of the same format as all tensors
ACLNN_API aclnnStatus aclnnCatGetWorkspaceSize(const aclTensorList* tensors, int64_t dim, aclTensor* out,
                                               uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnCat(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                               const aclrtStream stream);
