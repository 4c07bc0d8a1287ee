// The gradient of an embedding.
#pragma once

#include "aclnn/aclnn_base.h"

// grad             the gradient of the looked-up rows: a row for each of indices
// indices          which row of the weight each was
// numWeights       the rows of the weight
// paddingIdx       the row that has no gradient; a negative number, in the bits of this one: none
// scaleGradByFreq  whether each row's gradient is divided by the number of its indices
// out              the gradient of the weight, numWeights rows
ACLNN_API aclnnStatus aclnnEmbeddingDenseBackwardGetWorkspaceSize(const aclTensor* grad, const aclTensor* indices,
                                                                  uint64_t numWeights, uint64_t paddingIdx,
                                                                  bool scaleGradByFreq, const aclTensor* out,
                                                                  uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnEmbeddingDenseBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                  aclrtStream stream);
