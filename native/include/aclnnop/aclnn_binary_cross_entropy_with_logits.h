// The binary cross entropy of logits.
#pragma once

#include "aclnn/aclnn_base.h"

// self               the logits of the probabilities
// target             the targets, from 0 to 1; of the shape of self
// weightOptional     what each loss is multiplied by, or null; broadcast to target
// posWeightOptional  what the target is multiplied by where it adds to the loss, or null; broadcast to target
// reduction          0: none, 1: mean, 2: sum
// out                the losses, or their mean or sum, one number; of the type of target
ACLNN_API aclnnStatus aclnnBinaryCrossEntropyWithLogitsGetWorkspaceSize(
    const aclTensor* self, const aclTensor* target, const aclTensor* weightOptional, const aclTensor* posWeightOptional,
    int64_t reduction, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnBinaryCrossEntropyWithLogits(void* workspace, uint64_t workspaceSize,
                                                        aclOpExecutor* executor, aclrtStream stream);
