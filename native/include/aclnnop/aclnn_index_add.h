// A tensor to which slices are added, by their positions along an axis.
#pragma once

#include "aclnn/aclnn_base.h"

// self    of up to 8 axes
// dim     the axis; negative: from the last
// index   INT32 or INT64, of rank 0 or 1, from 0 to the size of the axis
// source  of the type of self, with a slice for each element of index
// alpha   what source is multiplied by
// out     of the type and shape of self
ACLNN_API aclnnStatus aclnnIndexAddGetWorkspaceSize(const aclTensor* self, const int64_t dim, const aclTensor* index,
                                                    const aclTensor* source, const aclScalar* alpha, aclTensor* out,
                                                    uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnIndexAdd(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                    aclrtStream stream);
