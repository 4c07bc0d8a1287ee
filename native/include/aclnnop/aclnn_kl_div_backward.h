// The gradient of the Kullback-Leibler divergence.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  the gradient of the loss, which is broadcast to self
// self        the logarithms of probabilities
// target      the probabilities that they should be, or their logarithms; broadcast to self
// reduction   how the losses became the loss: 0 not at all, 1 their mean, 2 their sum, 3 the sum over the
//             size of the first axis
// logTarget   whether the target has logarithms
// out         the gradient of self, of its shape
ACLNN_API aclnnStatus aclnnKlDivBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                         const aclTensor* target, int64_t reduction, bool logTarget,
                                                         aclTensor* out, uint64_t* workspaceSize,
                                                         aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnKlDivBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                         aclrtStream stream);
