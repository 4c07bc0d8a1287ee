// aclnnMaxPool2dWithMaskBackward: declared, not yet computed; phase 1 says so.
#include "aclnnop/aclnn_max_pool2d_with_indices_backward.h"
#include "executor.h"

aclnnStatus aclnnMaxPool2dWithMaskBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           const aclTensor* indices, const aclIntArray* kernelSize,
                                                           const aclIntArray* stride, const aclIntArray* padding,
                                                           const aclIntArray* dilation, bool ceilMode,
                                                           aclTensor* gradInput, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor) {
  (void)gradOutput;
  (void)self;
  (void)indices;
  (void)kernelSize;
  (void)stride;
  (void)padding;
  (void)dilation;
  (void)ceilMode;
  (void)gradInput;
  return acl_host::PlanOperator(__func__, workspaceSize, executor, []() -> acl_host::Plan {
    throw acl_host::OperatorError(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "no kernel");
  });
}

aclnnStatus aclnnMaxPool2dWithMaskBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
