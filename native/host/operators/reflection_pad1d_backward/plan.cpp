// aclnnReflectionPad1dBackward: see families/pad.
#include "families/pad/plan.h"

#include "aclnnop/aclnn_reflection_pad1d_backward.h"
#include "plan/executor.h"

namespace {

constexpr acl_host::PadOperator kOperator{acl_host::PadRule::kReflection, /*axes=*/1, /*takes_no_channels=*/true};

}  // namespace

aclnnStatus aclnnReflectionPad1dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                         const aclIntArray* padding, aclTensor* gradInput,
                                                         uint64_t* workspaceSize, aclOpExecutor** executor) {
  return acl_host::PlanOperator(__func__, workspaceSize, executor,
                                [&] { return acl_host::PlanPad(kOperator, {gradOutput, self, padding, gradInput}); });
}

aclnnStatus aclnnReflectionPad1dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                         aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
