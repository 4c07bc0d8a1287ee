// The gradients of root mean square normalisation.
#pragma once

#include "aclnn/aclnn_base.h"

// dy         the gradient of the normalised tensor, shaped as x
// x          the tensor that was normalised, shape (A.., R..)
// rstd       of each row: one over the root of its mean square; shape (A..), or with trailing dims of 1; FLOAT
// gamma      what the normalised rows were multiplied by, shape (R..)
// dxOut      the gradient of x
// dgammaOut  the gradient of gamma, FLOAT
ACLNN_API aclnnStatus aclnnRmsNormGradGetWorkspaceSize(const aclTensor* dy, const aclTensor* x, const aclTensor* rstd,
                                                       const aclTensor* gamma, const aclTensor* dxOut,
                                                       const aclTensor* dgammaOut, uint64_t* workspaceSize,
                                                       aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnRmsNormGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       aclrtStream stream);
