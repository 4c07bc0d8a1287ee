// The gradient of connectionist temporal classification.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOut           the gradient of each loss, (N)
// logProbs          the logarithms of the probabilities, (T, N, C)
// targets           the labels, (N, S) or one sample's behind the other's
// inputLengths      the steps of each sample, at most T
// targetLengths     the labels of each sample, at most S
// negLogLikelihood  the losses, (N), as the forward call gave them
// logAlpha          the logarithms of the probabilities of all that leads to a place at a step, (N, T, 2 * S + 1) or
//                   more places, likewise
// blank             the class between labels
// zeroInfinity      whether the gradients of infinite losses are 0
// out               the gradient, shaped as logProbs
ACLNN_API aclnnStatus aclnnCtcLossBackwardGetWorkspaceSize(const aclTensor* gradOut, const aclTensor* logProbs,
                                                           const aclTensor* targets, const aclIntArray* inputLengths,
                                                           const aclIntArray* targetLengths,
                                                           const aclTensor* negLogLikelihood, const aclTensor* logAlpha,
                                                           int64_t blank, bool zeroInfinity, aclTensor* out,
                                                           uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnCtcLossBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream);
