// The gradients of group normalisation.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOut        the gradient of the normalised tensor, of N * C * HxW elements
// input          the tensor that was normalised, of as many
// mean, rstd     of each group of a sample: its mean, and one over its standard deviation; N * group elements
// gamma          what the channels were multiplied by, C elements; null: ones
// N, C, HxW      samples, channels, and the elements of each channel
// group          groups of channels, which divide C
// outputMask     three values: which of the gradients are wanted
// gradInput      the gradient of input; null is allowed for an unwanted gradient
// gradGammaOut   the gradient of gamma
// gradBetaOut    the gradient of what was added to the channels
ACLNN_API aclnnStatus aclnnGroupNormBackwardGetWorkspaceSize(const aclTensor* gradOut, const aclTensor* input,
                                                             const aclTensor* mean, const aclTensor* rstd,
                                                             const aclTensor* gamma, int64_t N, int64_t C, int64_t HxW,
                                                             int64_t group, const aclBoolArray* outputMask,
                                                             aclTensor* gradInput, aclTensor* gradGammaOut,
                                                             aclTensor* gradBetaOut, uint64_t* workspaceSize,
                                                             aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnGroupNormBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);
