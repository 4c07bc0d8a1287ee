// The gradient of two-dimensional max unpooling.
#ifndef ACLNNOP_ACLNN_MAX_UNPOOL2D_BACKWARD_H_
#define ACLNNOP_ACLNN_MAX_UNPOOL2D_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput  (N, C, oH, oW) or (C, oH, oW)
//   self        (N, C, H, W) or (C, H, W); only its shape and data type matter
//   indices     INT32 or INT64, shaped as self: positions in a plane of gradOutput
//   outputSize  oH, oW
//   out         the gradient, shaped as self
ACLNN_API aclnnStatus aclnnMaxUnpool2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                               const aclTensor* indices, const aclIntArray* outputSize,
                                                               aclTensor* out, uint64_t* workspaceSize,
                                                               aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnMaxUnpool2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                               aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_MAX_UNPOOL2D_BACKWARD_H_
