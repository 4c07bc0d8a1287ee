// Dropout of given elements, which is its own gradient.
#pragma once

#include "aclnn/aclnn_base.h"

// self  a tensor of n elements
// mask  UINT8: bit i % 8, the lowest first, of byte i / 8 says whether element i is kept; at least ceil(n / 128) * 16
//       bytes
// prob  the probability that an element was dropped, from 0 to 1
// out   self / (1 - prob) where it is kept, and otherwise 0
ACLNN_API aclnnStatus aclnnDropoutDoMaskGetWorkspaceSize(const aclTensor* self, const aclTensor* mask, double prob,
                                                         aclTensor* out, uint64_t* workspaceSize,
                                                         aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnDropoutDoMask(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                         aclrtStream stream);
