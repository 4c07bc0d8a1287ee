// Slices of a tensor along an axis, by their positions.
#pragma once

#include "aclnn/aclnn_base.h"

// self   of up to 8 axes
// dim    the axis; negative: from the last
// index  INT32 or INT64, of rank 0 or 1, from 0 to the size of the axis; no device looks whether they are in that range
// out    of the type of self, with as many slices as index has elements
ACLNN_API aclnnStatus aclnnIndexSelectGetWorkspaceSize(const aclTensor* self, int64_t dim, const aclTensor* index,
                                                       aclTensor* out, uint64_t* workspaceSize,
                                                       aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnIndexSelect(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       const aclrtStream stream);
