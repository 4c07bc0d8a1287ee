// The gradients of root mean square normalisation.
#ifndef ACLNNOP_ACLNN_RMS_NORM_GRAD_H_
#define ACLNNOP_ACLNN_RMS_NORM_GRAD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   dy         the gradient of the normalised tensor, shaped as x
//   x          the tensor that was normalised, shape (A.., R..)
//   rstd       of each row: one over the root of its mean square; shape (A..), or with trailing dims of 1; FLOAT
//   gamma      what the normalised rows were multiplied by, shape (R..)
//   dxOut      the gradient of x
//   dgammaOut  the gradient of gamma, FLOAT
ACLNN_API aclnnStatus aclnnRmsNormGradGetWorkspaceSize(const aclTensor* dy, const aclTensor* x, const aclTensor* rstd,
                                                       const aclTensor* gamma, const aclTensor* dxOut,
                                                       const aclTensor* dgammaOut, uint64_t* workspaceSize,
                                                       aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnRmsNormGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_RMS_NORM_GRAD_H_
