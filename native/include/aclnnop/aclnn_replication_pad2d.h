// Padding of planes with copies of their edges.
#pragma once

#include "aclnn/aclnn_base.h"

// self     (N, C, H, W) or (C, H, W)
// padding  left, right, top, bottom; negative values crop
// out      (N, C, H + top + bottom, W + left + right), or the same without N
ACLNN_API aclnnStatus aclnnReplicationPad2dGetWorkspaceSize(const aclTensor* self, const aclIntArray* padding,
                                                            aclTensor* out, uint64_t* workspaceSize,
                                                            aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnReplicationPad2d(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                            aclrtStream stream);
