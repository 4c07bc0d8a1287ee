// The gradient of replication padding over three dimensions.
#ifndef ACLNNOP_ACLNN_REPLICATION_PAD3D_BACKWARD_H_
#define ACLNNOP_ACLNN_REPLICATION_PAD3D_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput  (N, C, D + front + back, H + top + bottom, W + left + right), or the same without N
//   self        (N, C, D, H, W) or (C, D, H, W); only its shape and data type matter
//   padding     left, right, top, bottom, front, back; negative values crop
//   gradInput   the gradient, shaped as self
ACLNN_API aclnnStatus aclnnReplicationPad3dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                                    const aclIntArray* padding, aclTensor* gradInput,
                                                                    uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnReplicationPad3dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                    const aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_REPLICATION_PAD3D_BACKWARD_H_
