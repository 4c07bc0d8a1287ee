// The squared error.
#pragma once

#include "aclnn/aclnn_base.h"

// self       what the loss compares with the target
// target     what self should be; it is broadcast with self
// reduction  0: none, 1: mean, 2: sum
// out        the losses, of the shape after broadcasting, or their mean or sum, of no dims
ACLNN_API aclnnStatus aclnnMseLossGetWorkspaceSize(const aclTensor* self, const aclTensor* target, int64_t reduction,
                                                   aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMseLoss(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream);
