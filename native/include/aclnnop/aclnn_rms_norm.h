// Root mean square normalisation.
#pragma once

#include "aclnn/aclnn_base.h"

// x        shape (A.., R..)
// gamma    what the normalised rows are multiplied by, shape (R..)
// epsilon  added to each mean square; devices round it to float
// yOut     written all the same: the result, shaped as x
// rstdOut  written all the same: one over the root of each row's mean square, shape (A.., 1..), FLOAT
ACLNN_API aclnnStatus aclnnRmsNormGetWorkspaceSize(const aclTensor* x, const aclTensor* gamma, double epsilon,
                                                   const aclTensor* yOut, const aclTensor* rstdOut,
                                                   uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnRmsNorm(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream);
