// The gradient of two-dimensional max pooling.
#ifndef ACLNNOP_ACLNN_MAX_POOL2D_WITH_INDICES_BACKWARD_H_
#define ACLNNOP_ACLNN_MAX_POOL2D_WITH_INDICES_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput  (N, C, oH, oW) or (C, oH, oW)
//   self        (N, C, H, W) or (C, H, W); only its shape and data type matter
//   indices     INT8, (N, C, kH * kW, (ceil(oH * oW / 16) + 1) * 32): the mask that the forward operator wrote. Its
//               layout depends on the product and on the kernel's size
//   kernelSize  one value, or height and width
//   stride      no value (as kernelSize), one or two
//   padding     one value or two, each at most half the kernel
//   dilation    one value or two, all 1
//   ceilMode    the output size was rounded up
//   gradInput   the gradient, shaped as self
ACLNN_API aclnnStatus aclnnMaxPool2dWithMaskBackwardGetWorkspaceSize(
    const aclTensor* gradOutput, const aclTensor* self, const aclTensor* indices, const aclIntArray* kernelSize,
    const aclIntArray* stride, const aclIntArray* padding, const aclIntArray* dilation, bool ceilMode,
    aclTensor* gradInput, uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnMaxPool2dWithMaskBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                     aclrtStream stream);

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput  (N, C, oH, oW) or (C, oH, oW)
//   self        (N, C, H, W) or (C, H, W); only its shape and data type matter
//   indices     INT32, or INT64 where the product takes it, shaped as gradOutput: positions in a plane of self
//   kernelSize  of a window; this and the following arrays have one value for both axes, or two
//   stride      empty: as kernelSize
//   padding     at most half of kernelSize
//   dilation    1, except on product 950
//   gradInput   the gradient, shaped as self
ACLNN_API aclnnStatus aclnnMaxPool2dWithIndicesBackwardGetWorkspaceSize(
    const aclTensor* gradOutput, const aclTensor* self, const aclTensor* indices, const aclIntArray* kernelSize,
    const aclIntArray* stride, const aclIntArray* padding, const aclIntArray* dilation, bool ceilMode,
    aclTensor* gradInput, uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnMaxPool2dWithIndicesBackward(void* workspace, uint64_t workspaceSize,
                                                        aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_MAX_POOL2D_WITH_INDICES_BACKWARD_H_
