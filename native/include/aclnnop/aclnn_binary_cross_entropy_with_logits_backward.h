// The gradient of the binary cross entropy of logits.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput         the gradient of the loss, which is broadcast to self
// self               the logits of the probabilities
// target             the targets, from 0 to 1; of the shape of self
// weightOptional     what each loss was multiplied by, or null; broadcast to self
// posWeightOptional  what the target was multiplied by where it adds to the loss, or null; broadcast to self
// reduction          how the losses became the loss: 0 not at all, 1 their mean, 2 their sum
// out                the gradient of self, of its shape, of the type of target
ACLNN_API aclnnStatus aclnnBinaryCrossEntropyWithLogitsBackwardGetWorkspaceSize(
    const aclTensor* gradOutput, const aclTensor* self, const aclTensor* target, const aclTensor* weightOptional,
    const aclTensor* posWeightOptional, int64_t reduction, aclTensor* out, uint64_t* workspaceSize,
    aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnBinaryCrossEntropyWithLogitsBackward(void* workspace, uint64_t workspaceSize,
                                                                aclOpExecutor* executor, aclrtStream stream);
