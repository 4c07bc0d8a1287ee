// The gradients of batch normalisation.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOut      (N, C) or (N, C, ...), of up to 8 dims
// input        the tensor that was normalised, shaped as gradOut
// weight       (C,), as all that follow; null: ones
// runningMean  used unless training; null: zeros
// runningVar   used unless training; null: ones
// saveMean     the batch's mean, used when training; null: zeros
// saveInvstd   used when training; null: ones. On the 950 the reciprocal of the standard deviation,
//              1 / sqrt(variance + eps); on all other products the batch's variance, in spite of the name
// training     the batch's own statistics were used, and depend on input
// eps          added to the variance; devices round it to float
// outputMask   which of the three outputs to write; the others may be null
// gradInput    shaped as input
// gradWeight   (C,)
// gradBias     (C,)
ACLNN_API aclnnStatus aclnnBatchNormBackwardGetWorkspaceSize(const aclTensor* gradOut, const aclTensor* input,
                                                             const aclTensor* weight, const aclTensor* runningMean,
                                                             const aclTensor* runningVar, const aclTensor* saveMean,
                                                             const aclTensor* saveInvstd, bool training, double eps,
                                                             const aclBoolArray* outputMask, aclTensor* gradInput,
                                                             aclTensor* gradWeight, aclTensor* gradBias,
                                                             uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnBatchNormBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);
