// Batch normalisation.
#pragma once

#include "aclnn/aclnn_base.h"

// input        (N, C) or (N, C, ...), of up to 8 dims
// weight       what the channels are multiplied by, (C,), as all that follow but output; null: ones
// bias         what is added to the channels; null: zeros
// runningMean  used unless training, else updated in its place; null: zeros, which are not kept
// runningVar   used unless training, else updated in its place; null: ones, which are not kept
// training     uses the batch's own statistics
// momentum     the share of the batch's statistics in the updated ones
// eps          added to the variance; devices round both to float
// output       the result, shaped as input
// saveMean     the batch's mean, if training
// saveInvstd   if training: on the 950 the reciprocal of the standard deviation, 1 / sqrt(variance + eps); on all other
//              products the batch's variance, in spite of the name
ACLNN_API aclnnStatus aclnnBatchNormGetWorkspaceSize(const aclTensor* input, const aclTensor* weight,
                                                     const aclTensor* bias, aclTensor* runningMean,
                                                     aclTensor* runningVar, bool training, double momentum, double eps,
                                                     aclTensor* output, aclTensor* saveMean, aclTensor* saveInvstd,
                                                     uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnBatchNorm(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     aclrtStream stream);
