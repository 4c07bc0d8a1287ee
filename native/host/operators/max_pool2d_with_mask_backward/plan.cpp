// aclnnMaxPool2dWithMaskBackward: its plan; the checks are those of checks.h.
#include "checks.h"
#include "computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {

Plan PlanMaxPool2dWithMaskBackward(const MaxPool2dWithMaskBackwardArguments& arguments) {
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
  plan.SetKernel<MaxPool2dWithMaskBackward>(pool, kind, arguments.self->data_type, slots);
  return plan;
}

}  // namespace acl_host
