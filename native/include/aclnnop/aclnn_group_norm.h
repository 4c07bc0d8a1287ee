// Group normalisation.
#pragma once

#include "aclnn/aclnn_base.h"

// self     shape (N, C, ...), of up to 8 dims
// gamma    what the channels are multiplied by, (C,); null: ones
// beta     what is added to the channels, (C,); null: zeros
// N, C     the first two sizes of self
// HxW      the product of all others
// group    into how many groups of channels each sample is divided
// eps      added to each variance, above 0; devices round it to float
// out      the result, shaped as self
// meanOut  the mean of each group, (N, group)
// rstdOut  1 / sqrt(variance + eps) of each group, (N, group)
ACLNN_API aclnnStatus aclnnGroupNormGetWorkspaceSize(const aclTensor* self, const aclTensor* gamma,
                                                     const aclTensor* beta, int64_t N, int64_t C, int64_t HxW,
                                                     int64_t group, double eps, aclTensor* out, aclTensor* meanOut,
                                                     aclTensor* rstdOut, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnGroupNorm(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     aclrtStream stream);
