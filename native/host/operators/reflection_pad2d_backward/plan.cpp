// aclnnReflectionPad2dBackward: see families/pad.
#include "families/pad/plan.h"

#include "aclnnop/aclnn_pad2d_backward.h"
#include "plan/executor.h"

namespace {

constexpr acl_host::PadOperator kOperator{acl_host::PadRule::kReflection, /*axes=*/2, /*takes_no_channels=*/true};

}  // namespace

aclnnStatus aclnnReflectionPad2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                         const aclIntArray* padding, aclTensor* gradInput,
                                                         uint64_t* workspaceSize, aclOpExecutor** executor) {
  return acl_host::PlanOperator(__func__, workspaceSize, executor,
                                [&] { return acl_host::PlanPad(kOperator, {gradOutput, self, padding, gradInput}); });
}

aclnnStatus aclnnReflectionPad2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                         const aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
