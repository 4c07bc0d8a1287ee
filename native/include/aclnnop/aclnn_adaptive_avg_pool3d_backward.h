// The gradient of three-dimensional adaptive average pooling.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  (N, C, oD, oH, oW) or (C, oD, oH, oW)
// self        (N, C, D, H, W) or (C, D, H, W); only its shape and data type matter
// out         the gradient, shaped as self
ACLNN_API aclnnStatus aclnnAdaptiveAvgPool3dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                                     aclTensor* out, uint64_t* workspaceSize,
                                                                     aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnAdaptiveAvgPool3dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                     aclrtStream stream);
