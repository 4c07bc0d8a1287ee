// The gradient of two-dimensional max unpooling.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  (N, C, oH, oW) or (C, oH, oW)
// self        (N, C, H, W) or (C, H, W); only its shape and data type matter
// indices     INT32 or INT64, shaped as self: positions in a plane of gradOutput
// outputSize  oH, oW
// out         the gradient, shaped as self
ACLNN_API aclnnStatus aclnnMaxUnpool2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                               const aclTensor* indices, const aclIntArray* outputSize,
                                                               aclTensor* out, uint64_t* workspaceSize,
                                                               aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMaxUnpool2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                               aclrtStream stream);
