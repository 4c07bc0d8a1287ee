// aclnnMaxUnpool3dBackward: declared, not yet computed; phase 1 says so.
#include "aclnnop/aclnn_max_unpool3d_backward.h"
#include "executor.h"

aclnnStatus aclnnMaxUnpool3dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                     const aclTensor* indices, const aclIntArray* outputSize,
                                                     const aclIntArray* stride, const aclIntArray* padding,
                                                     aclTensor* out, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor) {
  (void)gradOutput;
  (void)self;
  (void)indices;
  (void)outputSize;
  (void)stride;
  (void)padding;
  (void)out;
  return acl_host::PlanOperator(__func__, workspaceSize, executor, []() -> acl_host::Plan {
    throw acl_host::OperatorError(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "no kernel");
  });
}

aclnnStatus aclnnMaxUnpool3dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
