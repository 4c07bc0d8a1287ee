// A number in all elements of a tensor.
#pragma once

#include "aclnn/aclnn_base.h"

// selfRef  what is written, with any strides
// value    the number, which is cast to the type of selfRef
ACLNN_API aclnnStatus aclnnInplaceFillScalarGetWorkspaceSize(aclTensor* selfRef, const aclScalar* value,
                                                             uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnInplaceFillScalar(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);
