// The gradient of region-of-interest alignment.
#ifndef ACLNNOP_ACLNN_ROI_ALIGN_V2_BACKWARD_H_
#define ACLNNOP_ACLNN_ROI_ALIGN_V2_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput      (K, C, pooledHeight, pooledWidth), format NCHW
//   boxes           (K, 5), format ND: image id, x1, y1, x2, y2
//   inputShape      B, C, H, W
//   spatialScale    from the boxes' coordinates to those of the input
//   samplingRatio   samples of a bin along each axis; 0: as many as the bin's size, rounded up
//   aligned         coordinates are shifted by half a cell, and boxes may be smaller than one
//   gradInput       the gradient, (B, C, H, W), format NCHW
ACLNN_API aclnnStatus aclnnRoiAlignV2BackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* boxes,
                                                              const aclIntArray* inputShape, int64_t pooledHeight,
                                                              int64_t pooledWidth, float spatialScale,
                                                              int64_t samplingRatio, bool aligned, aclTensor* gradInput,
                                                              uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnRoiAlignV2Backward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                              aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_ROI_ALIGN_V2_BACKWARD_H_
