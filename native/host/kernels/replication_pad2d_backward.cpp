// aclnnReplicationPad2dBackward: declared, not yet computed; phase 1 says so.
#include "aclnnop/aclnn_pad2d_backward.h"
#include "executor.h"

aclnnStatus aclnnReplicationPad2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                          const aclIntArray* padding, aclTensor* gradInput,
                                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
  (void)gradOutput;
  (void)self;
  (void)padding;
  (void)gradInput;
  return acl_host::PlanOperator(__func__, workspaceSize, executor, []() -> acl_host::Plan {
    throw acl_host::OperatorError(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "no kernel");
  });
}

aclnnStatus aclnnReplicationPad2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                          const aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
