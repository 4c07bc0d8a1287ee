// The gradients of sampling a volume at the points of a grid.
#ifndef ACLNNOP_ACLNN_GRID_SAMPLER3D_BACKWARD_H_
#define ACLNNOP_ACLNN_GRID_SAMPLER3D_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput          the gradient of the samples, (N, C, oD, oH, oW)
//   input               the volume that was sampled, (N, C, D, H, W)
//   grid                the points as x, y and z, (N, oD, oH, oW, 3); -1 and 1 are the volume's edges
//   interpolationMode   0: linear along each axis, 1: nearest
//   paddingMode         outside the volume there are 0: zeros, 1: its nearest cells, 2: its reflection
//   alignCorners        -1 and 1 are the centres of the outer cells
//   outputMask          whether inputGrad and gridGrad are wanted; without a mask nothing is done
//   inputGrad           the gradient of input; never null, and untouched if it is not wanted
//   gridGrad            the gradient of grid, in the same way
ACLNN_API aclnnStatus aclnnGridSampler3DBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* input,
                                                                 const aclTensor* grid, int64_t interpolationMode,
                                                                 int64_t paddingMode, bool alignCorners,
                                                                 const aclBoolArray* outputMask, aclTensor* inputGrad,
                                                                 aclTensor* gridGrad, uint64_t* workspaceSize,
                                                                 aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnGridSampler3DBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                 aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_GRID_SAMPLER3D_BACKWARD_H_
