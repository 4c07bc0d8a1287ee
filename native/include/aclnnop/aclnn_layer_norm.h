// Layer normalisation.
#pragma once

#include "aclnn/aclnn_base.h"

// input            shape (A.., R..)
// normalizedShape  R..: the trailing sizes over which each row is normalised
// weightOptional   what the normalised rows are multiplied by, of normalizedShape; null: ones
// biasOptional     what is added, of normalizedShape; null: zeros
// eps              added to each variance; devices round it to float
// out              the result, shaped as input
// meanOutOptional  the mean of each row, shape (A.., 1..), or null
// rstdOutOptional  1 / sqrt(variance + eps) of each row, shaped as the mean, or null
ACLNN_API aclnnStatus aclnnLayerNormGetWorkspaceSize(const aclTensor* input, const aclIntArray* normalizedShape,
                                                     const aclTensor* weightOptional, const aclTensor* biasOptional,
                                                     double eps, aclTensor* out, aclTensor* meanOutOptional,
                                                     aclTensor* rstdOutOptional, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnLayerNorm(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     aclrtStream stream);
