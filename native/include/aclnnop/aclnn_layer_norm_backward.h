// The gradients of layer normalisation.
#ifndef ACLNNOP_ACLNN_LAYER_NORM_BACKWARD_H_
#define ACLNNOP_ACLNN_LAYER_NORM_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOut          the gradient of the normalised tensor, shaped as input
//   input            the tensor that was normalised, shape (A.., R..)
//   normalizedShape  R..: the trailing sizes over which each row was normalised
//   mean, rstd       of each row: its mean, and one over its standard deviation
//   weightOptional   what the normalised rows were multiplied by, of normalizedShape; null: ones
//   biasOptional     what was added, of normalizedShape, or null; only its shape and data type matter
//   outputMask       three values: which of the gradients are wanted
//   gradInputOut     the gradient of input; null is allowed for an unwanted gradient
//   gradWeightOut    the gradient of the weight
//   gradBiasOut      the gradient of the bias
ACLNN_API aclnnStatus aclnnLayerNormBackwardGetWorkspaceSize(const aclTensor* gradOut, const aclTensor* input,
                                                             const aclIntArray* normalizedShape, const aclTensor* mean,
                                                             const aclTensor* rstd, const aclTensor* weightOptional,
                                                             const aclTensor* biasOptional,
                                                             const aclBoolArray* outputMask, aclTensor* gradInputOut,
                                                             aclTensor* gradWeightOut, aclTensor* gradBiasOut,
                                                             uint64_t* workspaceSize, aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnLayerNormBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_LAYER_NORM_BACKWARD_H_
