// The gradient of three-dimensional max unpooling.
#ifndef ACLNNOP_ACLNN_MAX_UNPOOL3D_BACKWARD_H_
#define ACLNNOP_ACLNN_MAX_UNPOOL3D_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput       (N, C, oD, oH, oW) or (N, oD, oH, oW)
//   self             (N, C, D, H, W) or (N, D, H, W); only its shape and data type matter
//   indices          INT64, shaped as self: positions in a flattened (oD, oH, oW)
//   outputSize       oD, oH, oW
//   stride, padding  three values each; they do not change the result
//   out              the gradient, shaped as self; must be contiguous
ACLNN_API aclnnStatus aclnnMaxUnpool3dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                               const aclTensor* indices, const aclIntArray* outputSize,
                                                               const aclIntArray* stride, const aclIntArray* padding,
                                                               aclTensor* out, uint64_t* workspaceSize,
                                                               aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnMaxUnpool3dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                               aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_MAX_UNPOOL3D_BACKWARD_H_
