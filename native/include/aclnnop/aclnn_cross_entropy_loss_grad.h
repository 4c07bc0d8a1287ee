// The gradient of the cross entropy of classes, by the logits.
#pragma once

#include "aclnn/aclnn_base.h"

// gradLoss               the gradient of the loss: of each sample, (N), or one number
// logProb                the logarithms of the probabilities, (N, C)
// target                 the class of each sample, (N)
// weightOptional         of each class, (C), FLOAT; null: ones
// gradZlossOptional      no device reads it: null
// lseForZlossOptional    likewise
// reductionOptional      none, mean or sum; null: mean
// ignoreIndex            the target of samples that do not count
// labelSmoothing         the share of the loss that all classes have
// lseSquareScaleForZloss 0
// out                    written all the same: the gradient of the logits, shaped as logProb
ACLNN_API aclnnStatus aclnnCrossEntropyLossGradGetWorkspaceSize(
    const aclTensor* gradLoss, const aclTensor* logProb, const aclTensor* target, const aclTensor* weightOptional,
    const aclTensor* gradZlossOptional, const aclTensor* lseForZlossOptional, char* reductionOptional,
    int64_t ignoreIndex, double labelSmoothing, double lseSquareScaleForZloss, const aclTensor* out,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnCrossEntropyLossGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                aclrtStream stream);
