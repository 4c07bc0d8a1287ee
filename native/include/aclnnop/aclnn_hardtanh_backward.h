// The gradient of hardtanh, which bounds numbers; of ReLU6 with 0 and 6.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result, of the shape and type of self
// self        the tensor that the function was applied to
// min         the lower bound; up to it the gradient is 0
// max         the upper bound; from it on the gradient is 0
// out         the gradient of self, of its shape and type
ACLNN_API aclnnStatus aclnnHardtanhBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                            const aclScalar* min, const aclScalar* max, aclTensor* out,
                                                            uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnHardtanhBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                            aclrtStream stream);
