// The gradient of softplus, log(1 + exp(beta * x)) / beta.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result, of the shape of self
// self        the tensor that the function was applied to
// beta        the sharpness of the bend
// threshold   above it, beta * x has the gradient of x
// gradInput   the gradient of self, of its shape
ACLNN_API aclnnStatus aclnnSoftplusBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                            const aclScalar* beta, const aclScalar* threshold,
                                                            aclTensor* gradInput, uint64_t* workspaceSize,
                                                            aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSoftplusBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                            aclrtStream stream);
