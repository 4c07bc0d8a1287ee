// The gradient of the logarithm of softmax.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the result, shaped as it
// output      what the logarithm of softmax returned, with the data type of gradOutput
// dim         the dim along which softmax was computed; a negative one counts from the last
// out         the gradient of the input, shaped as output
ACLNN_API aclnnStatus aclnnLogSoftmaxBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* output,
                                                              int64_t dim, aclTensor* out, uint64_t* workspaceSize,
                                                              aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnLogSoftmaxBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                              aclrtStream stream);
