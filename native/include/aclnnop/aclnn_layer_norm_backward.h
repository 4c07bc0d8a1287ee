// The gradients of layer normalisation.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOut          the gradient of the normalised tensor, shaped as input
// input            the tensor that was normalised, shape (A.., R..)
// normalizedShape  R..: the trailing sizes over which each row was normalised
// mean, rstd       of each row: its mean, and one over its standard deviation
// weightOptional   what the normalised rows were multiplied by, of normalizedShape; null: ones
// biasOptional     what was added, of normalizedShape, or null; only its shape and data type matter
// outputMask       three values: which of the gradients are wanted
// gradInputOut     the gradient of input; null is allowed for an unwanted gradient
// gradWeightOut    the gradient of the weight
// gradBiasOut      the gradient of the bias
ACLNN_API aclnnStatus aclnnLayerNormBackwardGetWorkspaceSize(const aclTensor* gradOut, const aclTensor* input,
                                                             const aclIntArray* normalizedShape, const aclTensor* mean,
                                                             const aclTensor* rstd, const aclTensor* weightOptional,
                                                             const aclTensor* biasOptional,
                                                             const aclBoolArray* outputMask, aclTensor* gradInputOut,
                                                             aclTensor* gradWeightOut, aclTensor* gradBiasOut,
                                                             uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnLayerNormBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);
