// Means along some axes of a tensor.
#pragma once

#include "aclnn/aclnn_base.h"

// self     what means are taken of, of up to 8 axes
// dim      the axes, each once; empty: all of them
// keepDim  the axes remain, with one element
// dtype    the type that elements are converted to before they are added
// out      the means; NaN if self is empty
ACLNN_API aclnnStatus aclnnMeanGetWorkspaceSize(const aclTensor* self, const aclIntArray* dim, bool keepDim,
                                                aclDataType dtype, aclTensor* out, uint64_t* workspaceSize,
                                                aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMean(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);
