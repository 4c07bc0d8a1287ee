// The gradients of PReLU, which multiplies what is not positive by a weight.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result, shaped as self
// self        the tensor that the function was applied to
// weight      one number, or one for each channel, dim 1 of self
// gradInput   the gradient of self
// gradWeight  the gradient of weight: shaped as it, or (C)
ACLNN_API aclnnStatus aclnnPreluBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                         const aclTensor* weight, aclTensor* gradInput,
                                                         aclTensor* gradWeight, uint64_t* workspaceSize,
                                                         aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnPreluBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                         aclrtStream stream);
