// The gradient of reflection padding over three dimensions.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  (N, C, D + front + back, H + top + bottom, W + left + right), or the same without N
// self        (N, C, D, H, W) or (C, D, H, W); only its shape and data type matter
// padding     left, right, top, bottom, front, back; less than self's dim; negative values crop
// gradInput   the gradient, shaped as self
ACLNN_API aclnnStatus aclnnReflectionPad3dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                                   const aclIntArray* padding, aclTensor* gradInput,
                                                                   uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnReflectionPad3dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                   const aclrtStream stream);
