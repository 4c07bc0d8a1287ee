// Sums along some axes of a tensor.
#pragma once

#include "aclnn/aclnn_base.h"

// self      what is added up, of up to 8 axes
// dims      the axes, each once; empty: all of them
// keepDims  the axes remain, with one element
// dtype     the type that elements are converted to before they are added
// out       the sums, of this type
ACLNN_API aclnnStatus aclnnReduceSumGetWorkspaceSize(const aclTensor* self, const aclIntArray* dims, bool keepDims,
                                                     aclDataType dtype, aclTensor* out, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnReduceSum(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     aclrtStream stream);
