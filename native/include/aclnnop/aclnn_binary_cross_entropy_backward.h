// The gradient of the binary cross entropy of probabilities.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput      the gradient of the loss, which is broadcast to self
// self            the probabilities
// target          the targets, from 0 to 1; broadcast to self
// weightOptional  what each loss was multiplied by, or null; broadcast to self
// reduction       how the losses became the loss: 0 not at all, 1 their mean, 2 their sum
// out             the gradient of self, of its shape
ACLNN_API aclnnStatus aclnnBinaryCrossEntropyBackwardGetWorkspaceSize(
    const aclTensor* gradOutput, const aclTensor* self, const aclTensor* target, const aclTensor* weightOptional,
    int64_t reduction, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnBinaryCrossEntropyBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                      aclrtStream stream);
