// The gradient of nearest-neighbour upsampling in two dimensions.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOut      the gradient of the upsampled tensor, (N, C, oH, oW)
// outputSize   oH, oW
// inputSize    N, C, H, W
// scalesH      oH / H as in the forward call; 0 or less: from the sizes
// scalesW      oW / W in the same way
// gradInput    the gradient, (N, C, H, W), format NCHW
ACLNN_API aclnnStatus aclnnUpsampleNearest2dBackwardGetWorkspaceSize(const aclTensor* gradOut,
                                                                     const aclIntArray* outputSize,
                                                                     const aclIntArray* inputSize, double scalesH,
                                                                     double scalesW, aclTensor* gradInput,
                                                                     uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnUpsampleNearest2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                     aclrtStream stream);
