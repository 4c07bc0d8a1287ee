// The gradients of the rotary position embedding, y = x * cos + rotate(x) * sin.
#pragma once

#include "aclnn/aclnn_base.h"

// dy         the gradient of y, shape (B, N, S, D), (B, S, N, D) or (S, B, N, D)
// cos        the cosines, shaped as dy with 1 along the axes that share them
// sin        the sines, shaped as cos
// xOptional  the tensor that was rotated, shaped as dy; null: no gradients of cos and sin
// mode       what rotate pairs: 0 the halves of the last axis, 1 each even element and the next one
// dxOut      the gradient of x
// dcosOut    the gradient of cos; left as it is without x, but not null
// dsinOut    the gradient of sin; likewise
ACLNN_API aclnnStatus aclnnRotaryPositionEmbeddingGradGetWorkspaceSize(
    const aclTensor* dy, const aclTensor* cos, const aclTensor* sin, const aclTensor* xOptional, int64_t mode,
    const aclTensor* dxOut, const aclTensor* dcosOut, const aclTensor* dsinOut, uint64_t* workspaceSize,
    aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnRotaryPositionEmbeddingGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                       aclrtStream stream);
