// The gradient of a threshold, below which the function is constant; of ReLU with the threshold 0.
#ifndef ACLNNOP_ACLNN_THRESHOLD_BACKWARD_H_
#define ACLNNOP_ACLNN_THRESHOLD_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput  the gradient of the result; it and self are broadcast
//   self        the tensor that the function was applied to, or the result of ReLU
//   threshold   the largest number whose gradient is 0
//   out         the gradient of self, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnThresholdBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                             const aclScalar* threshold, aclTensor* out,
                                                             uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnThresholdBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_THRESHOLD_BACKWARD_H_
