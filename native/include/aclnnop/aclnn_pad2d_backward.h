// The gradients of two-dimensional padding, by replication and by reflection.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  (N, C, H + top + bottom, W + left + right), or the same without N
// self        (N, C, H, W) or (C, H, W); only its shape and data type matter
// padding     left, right, top, bottom; negative values crop
// gradInput   the gradient, shaped as self
ACLNN_API aclnnStatus aclnnReplicationPad2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                                    const aclIntArray* padding, aclTensor* gradInput,
                                                                    uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnReplicationPad2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                    const aclrtStream stream);

// gradOutput  (N, C, H + top + bottom, W + left + right), or the same without N
// self        (N, C, H, W) or (C, H, W); only its shape and data type matter
// padding     left, right, top, bottom; less than self's dim; negative values crop
// gradInput   the gradient, shaped as self
ACLNN_API aclnnStatus aclnnReflectionPad2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                                   const aclIntArray* padding, aclTensor* gradInput,
                                                                   uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnReflectionPad2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                   const aclrtStream stream);
