// The gradient of three-dimensional max unpooling.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput       (N, C, oD, oH, oW) or (N, oD, oH, oW)
// self             (N, C, D, H, W) or (N, D, H, W); only its shape and data type matter
// indices          INT64, shaped as self: positions in a flattened (oD, oH, oW)
// outputSize       oD, oH, oW
// stride, padding  three values each; they do not change the result
// out              the gradient, shaped as self; must be contiguous
ACLNN_API aclnnStatus aclnnMaxUnpool3dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                               const aclTensor* indices, const aclIntArray* outputSize,
                                                               const aclIntArray* stride, const aclIntArray* padding,
                                                               aclTensor* out, uint64_t* workspaceSize,
                                                               aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMaxUnpool3dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                               aclrtStream stream);
