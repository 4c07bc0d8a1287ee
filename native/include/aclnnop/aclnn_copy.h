// Copies a tensor into another, of another type or larger by broadcasting too.
#pragma once

#include "aclnn/aclnn_base.h"

// selfRef  the tensor that is written, any strides
// src      what is copied, any strides; it is broadcast to the shape of selfRef and converted to its type
ACLNN_API aclnnStatus aclnnInplaceCopyGetWorkspaceSize(aclTensor* selfRef, const aclTensor* src,
                                                       uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnInplaceCopy(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       aclrtStream stream);
