// The gradient of hard swish, x * min(max(x + 3, 0), 6) / 6.
#ifndef ACLNNOP_ACLNN_HARDSWISH_BACKWARD_H_
#define ACLNNOP_ACLNN_HARDSWISH_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput  the gradient of the result, shaped as self
//   self        the tensor that the function was applied to
//   out         the gradient of self
ACLNN_API aclnnStatus aclnnHardswishBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                             aclTensor* out, uint64_t* workspaceSize,
                                                             aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnHardswishBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_HARDSWISH_BACKWARD_H_
