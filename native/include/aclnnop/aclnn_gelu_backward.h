// The gradient of GELU in the approximation by a hyperbolic tangent.
#ifndef ACLNNOP_ACLNN_GELU_BACKWARD_H_
#define ACLNNOP_ACLNN_GELU_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput  the gradient of the result; it and self are broadcast and promoted
//   self        the tensor that the function was applied to
//   gradInput   written all the same: the gradient of self, of the shape after broadcasting
ACLNN_API aclnnStatus aclnnGeluBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                        const aclTensor* gradInput, uint64_t* workspaceSize,
                                                        aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnGeluBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                        aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_GELU_BACKWARD_H_
