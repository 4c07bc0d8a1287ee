// The negative log likelihood of a class for each sample.
#pragma once

#include "aclnn/aclnn_base.h"

// self            the logarithms of the probabilities, (N, C) or (C)
// target          the class of each sample, (N) or (); INT64, INT32 or UINT8
// weight          of each class, (C)
// reduction       0: none, 1: mean, 2: sum
// ignoreIndex     the target of samples that do not count
// out             the loss of each sample, (N), or of all, one number
// totalWeightOut  the sum of the weights of all targets, one number; devices write it with a reduction alone
ACLNN_API aclnnStatus aclnnNLLLossGetWorkspaceSize(const aclTensor* self, const aclTensor* target,
                                                   const aclTensor* weight, int64_t reduction, int64_t ignoreIndex,
                                                   aclTensor* out, aclTensor* totalWeightOut, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnNLLLoss(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream);
