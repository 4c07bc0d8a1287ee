// Bilinear upsampling over the last two dimensions.
#pragma once

#include "aclnn/aclnn_base.h"

// self          (N, C, H, W)
// outputSize    oH and oW
// alignCorners  whether the corners of both tensors lie on each other
// scalesH, scalesW
//               oH / H and oW / W, or 0 for them
// out           (N, C, oH, oW)
ACLNN_API aclnnStatus aclnnUpsampleBilinear2dGetWorkspaceSize(const aclTensor* self, const aclIntArray* outputSize,
                                                              const bool alignCorners, const double scalesH,
                                                              const double scalesW, aclTensor* out,
                                                              uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnUpsampleBilinear2d(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                              aclrtStream stream);
