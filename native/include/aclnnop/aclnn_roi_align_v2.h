// RoI align: pooling boxes of images.
#pragma once

#include "aclnn/aclnn_base.h"

// self                       the images, (N, C, H, W)
// boxes                      (K, 5): image, x1, y1, x2, y2, before scaling
// pooledHeight, pooledWidth  bins of a box
// spatialScale               what coordinates are multiplied by
// samplingRatio              samples of a bin along each axis; 0: as many as the bin has cells
// aligned                    shifts boxes by half a cell
// out                        (K, C, pooledHeight, pooledWidth)
ACLNN_API aclnnStatus aclnnRoiAlignV2GetWorkspaceSize(const aclTensor* self, const aclTensor* boxes,
                                                      int64_t pooledHeight, int64_t pooledWidth, float spatialScale,
                                                      int64_t samplingRatio, bool aligned, aclTensor* out,
                                                      uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnRoiAlignV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                      aclrtStream stream);
