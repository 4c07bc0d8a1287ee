// The gradient of the absolute error, which is a squared one next to 0.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOut    the gradient of the loss, which is broadcast with self
// self       what the loss compares with the target
// target     what self should be; it is broadcast with self
// reduction  how the losses became the loss: 0 not at all, 1 their mean, 2 their sum
// beta       up to this error the loss is squared; at least 1e-6
// gradInput  the gradient of self, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnSmoothL1LossBackwardGetWorkspaceSize(const aclTensor* gradOut, const aclTensor* self,
                                                                const aclTensor* target, int64_t reduction, float beta,
                                                                aclTensor* gradInput, uint64_t* workspaceSize,
                                                                aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSmoothL1LossBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                aclrtStream stream);
