// Adaptive average pooling over the last two axes.
#pragma once

#include "aclnn/aclnn_base.h"

// self        (N, C, H, W), format NCHW, or (C, H, W), format NCL
// outputSize  height and width of out
// out         (N, C, oH, oW) or (C, oH, oW); each element is the mean of a window, and windows divide the plane
ACLNN_API aclnnStatus aclnnAdaptiveAvgPool2dGetWorkspaceSize(const aclTensor* self, const aclIntArray* outputSize,
                                                             aclTensor* out, uint64_t* workspaceSize,
                                                             aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnAdaptiveAvgPool2d(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);
