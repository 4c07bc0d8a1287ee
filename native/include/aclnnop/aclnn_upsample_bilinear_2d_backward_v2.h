// The gradient of bilinear upsampling in two dimensions.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOut       the gradient of the upsampled tensor, (N, C, oH, oW)
// outputSize    oH, oW
// inputSize     N, C, H, W
// alignCorners  whether the corner cells of both tensors lie on each other, rather than their outer edges
// scalesH       oH / H as in the forward call; 0: from the sizes
// scalesW       oW / W in the same way
// out           the gradient, (N, C, H, W), format NCHW
ACLNN_API aclnnStatus aclnnUpsampleBilinear2dBackwardV2GetWorkspaceSize(
    const aclTensor* gradOut, const aclIntArray* outputSize, const aclIntArray* inputSize, bool alignCorners,
    double scalesH, double scalesW, aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnUpsampleBilinear2dBackwardV2(void* workspace, uint64_t workspaceSize,
                                                        aclOpExecutor* executor, aclrtStream stream);
