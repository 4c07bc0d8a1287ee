// The gradient of the squared error.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the loss, which is broadcast with self
// self        what the loss compares with the target
// target      what self should be; it is broadcast with self, of the same type
// reduction   how the losses became the loss: 0 not at all, 1 their mean, 2 their sum
// out         the gradient of self, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnMseLossBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           const aclTensor* target, int64_t reduction, aclTensor* out,
                                                           uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMseLossBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream);
