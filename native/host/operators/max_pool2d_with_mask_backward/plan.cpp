// aclnnMaxPool2dWithMaskBackward: its plan; the checks are those of checks.h.
#include "aclnnop/aclnn_max_pool2d_with_indices_backward.h"
#include "checks.h"
#include "computation.h"
#include "plan/checks.h"
#include "plan/executor.h"

namespace acl_host {
namespace {

Plan MakePlan(const MaxPoolArguments& arguments) {
  const MaxPool pool = CheckMaskedPool(arguments);
  Plan plan;
  if (pool.batches == 0) return plan;

  const MaskKind kind = UsesArgmax(CurrentProduct(), pool) ? MaskKind::kArgmax : MaskKind::kBits;
  plan.AddInput(*arguments.grad_output);
  plan.AddInput(kind == MaskKind::kArgmax ? ArgmaxTensor(*arguments.indices, pool)
                                          : MaskTensor(*arguments.indices, pool));
  plan.AddOutput(*arguments.grad_input);
  const int64_t slots = AddSums(plan, pool, static_cast<int64_t>(aclDataTypeSize(arguments.self->data_type)));
  plan.PromiseTimeOfBytes();
  plan.SetCompute([run = AtVectorLevel<MaxPool2dWithMaskBackward>(), pool, kind, slots,
                   type = arguments.self->data_type](const Launch& launch) { run(pool, kind, type, slots, launch); });
  return plan;
}

}  // namespace
}  // namespace acl_host

aclnnStatus aclnnMaxPool2dWithMaskBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           const aclTensor* indices, const aclIntArray* kernelSize,
                                                           const aclIntArray* stride, const aclIntArray* padding,
                                                           const aclIntArray* dilation, bool ceilMode,
                                                           aclTensor* gradInput, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor) {
  return acl_host::PlanOperator(__func__, workspaceSize, executor, [&] {
    return acl_host::MakePlan({gradOutput, self, indices, kernelSize, stride, padding, dilation, ceilMode, gradInput});
  });
}

aclnnStatus aclnnMaxPool2dWithMaskBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
