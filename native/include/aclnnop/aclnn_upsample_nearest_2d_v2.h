// Nearest-neighbour upsampling over the last two dimensions.
#pragma once

#include "aclnn/aclnn_base.h"

// self        (N, C, H, W)
// outputSize  oH and oW
// scalesH, scalesW
//             the scales of rows and columns; devices use them, or oH / H and oW / W unless they are above 0
// out         (N, C, oH, oW)
ACLNN_API aclnnStatus aclnnUpsampleNearest2dV2GetWorkspaceSize(const aclTensor* self, const aclIntArray* outputSize,
                                                               float scalesH, float scalesW, aclTensor* out,
                                                               uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnUpsampleNearest2dV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                               aclrtStream stream);
