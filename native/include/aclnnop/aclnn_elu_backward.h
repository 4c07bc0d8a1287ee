// The gradient of ELU, and so of CELU and SELU.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput    the gradient of the result
// alpha         the limit of the function on the left, before it is scaled; not negative with isResult
// scale         what the result is multiplied by
// inputScale    what the argument of the exponential is multiplied by
// isResult      whether selfOrResult is the result
// selfOrResult  what the function was applied to, or its result; of the shape and type of gradOutput
// gradInput     the gradient of the input, of its shape
ACLNN_API aclnnStatus aclnnEluBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclScalar* alpha,
                                                       const aclScalar* scale, const aclScalar* inputScale,
                                                       bool isResult, const aclTensor* selfOrResult,
                                                       aclTensor* gradInput, uint64_t* workspaceSize,
                                                       aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnEluBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       aclrtStream stream);
