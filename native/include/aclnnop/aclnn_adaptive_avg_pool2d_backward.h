// The gradient of two-dimensional adaptive average pooling.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  (N, C, oH, oW) or (C, oH, oW)
// self        (N, C, H, W) or (C, H, W); only its shape and data type matter
// out         the gradient, shaped as self
ACLNN_API aclnnStatus aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                                     aclTensor* out, uint64_t* workspaceSize,
                                                                     aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnAdaptiveAvgPool2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                     const aclrtStream stream);
