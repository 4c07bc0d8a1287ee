// Two-dimensional max pooling, and where the maxima are.
#pragma once

#include "aclnn/aclnn_base.h"

// self        (N, C, H, W) or (C, H, W)
// kernelSize  of a window; this and the following arrays have one value for both axes, or two
// stride      empty: as kernelSize
// padding     at most half of kernelSize; minus infinity
// dilation    1, except on product 950
// ceilMode    the output size is rounded up
// out         (N, C, oH, oW) or (C, oH, oW)
// indices     INT32 or INT64, shaped as out: positions in a plane of self
ACLNN_API aclnnStatus aclnnMaxPool2dWithIndicesGetWorkspaceSize(const aclTensor* self, const aclIntArray* kernelSize,
                                                                const aclIntArray* stride, const aclIntArray* padding,
                                                                const aclIntArray* dilation, bool ceilMode,
                                                                aclTensor* out, aclTensor* indices,
                                                                uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMaxPool2dWithIndices(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                aclrtStream stream);

// The same, but
//
// dilation    1
// indices     INT8, (N, C, kH * kW, (ceil(oH * oW / 16) + 1) * 32): a mask for the gradient. Its layout depends on the
//             product and on the kernel's size
ACLNN_API aclnnStatus aclnnMaxPool2dWithMaskGetWorkspaceSize(const aclTensor* self, const aclIntArray* kernelSize,
                                                             const aclIntArray* stride, const aclIntArray* padding,
                                                             const aclIntArray* dilation, bool ceilMode, aclTensor* out,
                                                             aclTensor* indices, uint64_t* workspaceSize,
                                                             aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnMaxPool2dWithMask(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);
