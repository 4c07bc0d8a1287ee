// Padding of planes with what their edges mirror.
#pragma once

#include "aclnn/aclnn_base.h"

// self     (N, C, H, W) or (C, H, W)
// padding  left, right, top, bottom; less than self's dim; negative values crop
// out      (N, C, H + top + bottom, W + left + right), or the same without N
ACLNN_API aclnnStatus aclnnReflectionPad2dGetWorkspaceSize(const aclTensor* self, const aclIntArray* padding,
                                                           aclTensor* out, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnReflectionPad2d(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           const aclrtStream stream);
