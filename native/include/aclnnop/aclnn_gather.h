// Elements of a tensor, each by its own position along an axis.
#pragma once

#include "aclnn/aclnn_base.h"

// self   of up to 8 axes
// dim    the axis; negative: from the last
// index  INT32 or INT64, of the rank of self and at most its size in all other axes; from 0 to the size of the axis,
//        which no device looks at
// out    of the type of self and the shape of index
ACLNN_API aclnnStatus aclnnGatherGetWorkspaceSize(const aclTensor* self, const int64_t dim, const aclTensor* index,
                                                  aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnGather(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                  const aclrtStream stream);
