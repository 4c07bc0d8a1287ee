// Two-dimensional average pooling.
#pragma once

#include "aclnn/aclnn_base.h"

// self             (N, C, H, W), format NCHW, or (C, H, W), format NCL
// kernelSize       of a window; this and the following arrays have one value for both axes, or two
// strides          empty: as kernelSize
// paddings         at most half of kernelSize; zeros
// ceilMode         a last window may reach beyond the padding
// countIncludePad  padding counts among the cells of a window
// divisorOverride  the divisor of every window; 0: the number of its cells
// cubeMathType     how precisely matrix units compute, 0 to 3
// out              (N, C, oH, oW) or (C, oH, oW)
ACLNN_API aclnnStatus aclnnAvgPool2dGetWorkspaceSize(const aclTensor* self, const aclIntArray* kernelSize,
                                                     const aclIntArray* strides, const aclIntArray* paddings,
                                                     bool ceilMode, bool countIncludePad, int64_t divisorOverride,
                                                     int8_t cubeMathType, aclTensor* out, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnAvgPool2d(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     aclrtStream stream);
