// The gradient of region-of-interest alignment.
#pragma once

#include "aclnn/aclnn_base.h"

// gradOutput      (K, C, pooledHeight, pooledWidth), format NCHW
// boxes           (K, 5), format ND: image id, x1, y1, x2, y2
// inputShape      B, C, H, W
// spatialScale    from the boxes' coordinates to those of the input
// samplingRatio   samples of a bin along each axis; 0: as many as the bin's size, rounded up
// aligned         coordinates are shifted by half a cell, and boxes may be smaller than one
// gradInput       the gradient, (B, C, H, W), format NCHW
ACLNN_API aclnnStatus aclnnRoiAlignV2BackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* boxes,
                                                              const aclIntArray* inputShape, int64_t pooledHeight,
                                                              int64_t pooledWidth, float spatialScale,
                                                              int64_t samplingRatio, bool aligned, aclTensor* gradInput,
                                                              uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnRoiAlignV2Backward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                              aclrtStream stream);
