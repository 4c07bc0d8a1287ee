// Raises the elements of a tensor to a power.
#pragma once

#include "aclnn/aclnn_base.h"

// self      the bases
// exponent  the exponent
// out       the result, of the shape of self; its type may be any that the promoted type is cast to
ACLNN_API aclnnStatus aclnnPowTensorScalarGetWorkspaceSize(const aclTensor* self, const aclScalar* exponent,
                                                           const aclTensor* out, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnPowTensorScalar(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream);
