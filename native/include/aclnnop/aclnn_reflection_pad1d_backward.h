// The gradient of reflection padding over one dimension.
#ifndef ACLNNOP_ACLNN_REFLECTION_PAD1D_BACKWARD_H_
#define ACLNNOP_ACLNN_REFLECTION_PAD1D_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput  (N, C, W + left + right), or the same without N
//   self        (N, C, W) or (C, W); only its shape and data type matter
//   padding     left, right; less than self's dim; negative values crop
//   gradInput   the gradient, shaped as self
ACLNN_API aclnnStatus aclnnReflectionPad1dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                                   const aclIntArray* padding, aclTensor* gradInput,
                                                                   uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnReflectionPad1dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                   aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_REFLECTION_PAD1D_BACKWARD_H_
