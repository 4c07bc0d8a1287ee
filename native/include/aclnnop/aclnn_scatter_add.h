// A tensor to which elements are added, each at its own position along an axis.
#pragma once

#include "aclnn/aclnn_base.h"

// self   of up to 8 axes
// dim    the axis; negative: from the last
// index  INT32 or INT64, of the rank of self and at most its size in all other axes; from 0 to the size of the axis
// src    of the type of self, and at least of the size of index in each axis
// out    of the type and shape of self
ACLNN_API aclnnStatus aclnnScatterAddGetWorkspaceSize(const aclTensor* self, int64_t dim, const aclTensor* index,
                                                      const aclTensor* src, aclTensor* out, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnScatterAdd(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                      const aclrtStream stream);
