// The gradient of two-dimensional average pooling.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput       (N, C, oH, oW) or (C, oH, oW), format NCHW or NCL
// self             (N, C, H, W) or (C, H, W); only its shape matters
// kernelSize       of a window; this and the following arrays have one value for both axes, or two
// stride           empty: as kernelSize
// padding          at most half of kernelSize
// ceilMode         a last window may reach beyond the padding
// countIncludePad  padding counts among the cells of a window
// divisorOverride  the divisor of every window; 0: the number of its cells
// cubeMathType     how precisely matrix units compute, 0 to 3
// gradInput        the gradient, shaped as self
ACLNN_API aclnnStatus aclnnAvgPool2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                             const aclIntArray* kernelSize, const aclIntArray* stride,
                                                             const aclIntArray* padding, bool ceilMode,
                                                             bool countIncludePad, int64_t divisorOverride,
                                                             int8_t cubeMathType, aclTensor* gradInput,
                                                             uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnAvgPool2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);
