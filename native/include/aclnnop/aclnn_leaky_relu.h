// Each element, or its product with a slope if it is negative.
#pragma once

#include "aclnn/aclnn_base.h"

// self           the tensor
// negativeSlope  what negative elements are multiplied by
// out            the result, of the shape of self
ACLNN_API aclnnStatus aclnnLeakyReluGetWorkspaceSize(const aclTensor* self, const aclScalar* negativeSlope,
                                                     aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnLeakyRelu(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     aclrtStream stream);
