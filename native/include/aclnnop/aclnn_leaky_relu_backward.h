// The gradient of leaky ReLU.
#ifndef ACLNNOP_ACLNN_LEAKY_RELU_BACKWARD_H_
#define ACLNNOP_ACLNN_LEAKY_RELU_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput     the gradient of the result; it and self are broadcast and promoted
//   self           the tensor that the function was applied to, or its result
//   negativeSlope  what the function multiplies negative numbers by, any real number
//   selfIsResult   whether self is the result; the slope is not negative then
//   out            the gradient of the input, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnLeakyReluBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                             const aclScalar* negativeSlope, bool selfIsResult,
                                                             aclTensor* out, uint64_t* workspaceSize,
                                                             aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnLeakyReluBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_LEAKY_RELU_BACKWARD_H_
