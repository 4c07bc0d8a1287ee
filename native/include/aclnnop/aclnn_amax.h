// The largest elements along some axes of a tensor.
#pragma once

#include "aclnn/aclnn_base.h"

// self     what the largest elements are taken of, of up to 8 axes
// dim      the axes, each once and with elements; empty: all of them
// keepDim  the axes remain, with one element
// out      the largest elements, of the type of self; NaN where there is one
ACLNN_API aclnnStatus aclnnAmaxGetWorkspaceSize(const aclTensor* self, const aclIntArray* dim, bool keepDim,
                                                aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnAmax(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
