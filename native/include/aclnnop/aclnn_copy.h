// Copies a tensor into another, of another type or larger by broadcasting too.
#ifndef ACLNNOP_ACLNN_COPY_H_
#define ACLNNOP_ACLNN_COPY_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   selfRef  the tensor that is written, any strides
//   src      what is copied, any strides; it is broadcast to the shape of selfRef and converted to its type
ACLNN_API aclnnStatus aclnnInplaceCopyGetWorkspaceSize(aclTensor* selfRef, const aclTensor* src,
                                                       uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnInplaceCopy(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_COPY_H_
