// The absolute error, which is squared near 0.
#pragma once

#include "aclnn/aclnn_base.h"

// self       what the loss compares with the target
// target     what self should be; it is broadcast with self
// reduction  0: none, 1: mean, 2: sum
// beta       the error below which the loss is squared, at least 0
// result     the losses, of the shape after broadcasting, or their mean or sum, one number
ACLNN_API aclnnStatus aclnnSmoothL1LossGetWorkspaceSize(const aclTensor* self, const aclTensor* target,
                                                        int64_t reduction, float beta, aclTensor* result,
                                                        uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSmoothL1Loss(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                        aclrtStream stream);
