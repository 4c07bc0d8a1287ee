// The gradient of softmax.
#ifndef ACLNNOP_ACLNN_SOFTMAX_BACKWARD_H_
#define ACLNNOP_ACLNN_SOFTMAX_BACKWARD_H_

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks the arguments, plans the work and says how much device memory it needs besides the tensors.
//   gradOutput  the gradient of the result, shaped as it
//   output      what softmax returned, with the data type of gradOutput
//   dim         the dim whose elements add up to 1; a negative one counts from the last
//   out         the gradient of the input, shaped as output
ACLNN_API aclnnStatus aclnnSoftmaxBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* output,
                                                           int64_t dim, aclTensor* out, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor);

// Queues the work and consumes the executor, whether that succeeds or not.
ACLNN_API aclnnStatus aclnnSoftmaxBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // ACLNNOP_ACLNN_SOFTMAX_BACKWARD_H_
