// The gradient of replication padding over one dimension.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  (N, C, W + left + right), or the same without N
// self        (N, C, W) or (C, W); only its shape and data type matter
// padding     left, right; negative values crop
// gradInput   the gradient, shaped as self
ACLNN_API aclnnStatus aclnnReplicationPad1dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                                    const aclIntArray* padding, aclTensor* gradInput,
                                                                    uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnReplicationPad1dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                    aclrtStream stream);
