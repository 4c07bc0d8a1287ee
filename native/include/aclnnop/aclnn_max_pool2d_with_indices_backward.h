// The gradient of two-dimensional max pooling.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput  (N, C, oH, oW) or (C, oH, oW)
// self        (N, C, H, W) or (C, H, W); only its shape and data type matter
// indices     INT8, (N, C, kH * kW, (ceil(oH * oW / 16) + 1) * 32): the mask that the forward operator wrote. Its
//             layout depends on the product and on the kernel's size
// kernelSize  one value, or height and width
// stride      no value (as kernelSize), one or two
// padding     one value or two, each at most half the kernel
// dilation    one value or two, all 1
// ceilMode    the output size was rounded up
// gradInput   the gradient, shaped as self
ACLNN_API aclnnStatus aclnnMaxPool2dWithMaskBackwardGetWorkspaceSize(
    const aclTensor* gradOutput, const aclTensor* self, const aclTensor* indices, const aclIntArray* kernelSize,
    const aclIntArray* stride, const aclIntArray* padding, const aclIntArray* dilation, bool ceilMode,
    aclTensor* gradInput, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMaxPool2dWithMaskBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                     aclrtStream stream);

// gradOutput  (N, C, oH, oW) or (C, oH, oW)
// self        (N, C, H, W) or (C, H, W); only its shape and data type matter
// indices     INT32, or INT64 where the product takes it, shaped as gradOutput: positions in a plane of self
// kernelSize  of a window; this and the following arrays have one value for both axes, or two
// stride      empty: as kernelSize
// padding     at most half of kernelSize
// dilation    1, except on product 950
// gradInput   the gradient, shaped as self
ACLNN_API aclnnStatus aclnnMaxPool2dWithIndicesBackwardGetWorkspaceSize(
    const aclTensor* gradOutput, const aclTensor* self, const aclTensor* indices, const aclIntArray* kernelSize,
    const aclIntArray* stride, const aclIntArray* padding, const aclIntArray* dilation, bool ceilMode,
    aclTensor* gradInput, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMaxPool2dWithIndicesBackward(void* workspace, uint64_t workspaceSize,
                                                        aclOpExecutor* executor, aclrtStream stream);
