// aclnnMaxPool2dWithMaskBackward: its plan; the checks are those of max_pool_checks.h.
#include <algorithm>

#include "aclnnop/aclnn_max_pool2d_with_indices_backward.h"
#include "checks.h"
#include "computation.h"
#include "device/runtime.h"
#include "plan/checks.h"
#include "plan/executor.h"

namespace acl_host {
namespace {

Plan MakePlan(const MaxPoolArguments& arguments) {
  const MaxPool pool = CheckMaxPool(arguments);
  Plan plan;
  if (pool.batches == 0) return plan;

  const MaskKind kind = UsesArgmax(CurrentProduct(), pool) ? MaskKind::kArgmax : MaskKind::kBits;
  plan.AddInput(*arguments.grad_output);
  plan.AddInput(kind == MaskKind::kArgmax ? ArgmaxTensor(*arguments.indices, pool)
                                          : MaskTensor(*arguments.indices, pool));
  plan.AddOutput(*arguments.grad_input);
  // The workspace holds as many bands as planes can be worked on at once, and room to start at a float's address.
  const int64_t bands = std::min<int64_t>(pool.batches * pool.channels, Runtime::Current()->config().threads);
  uint64_t bands_bytes = 0;
  if (__builtin_mul_overflow(BandBytes(pool), static_cast<uint64_t>(bands), &bands_bytes) ||
      __builtin_add_overflow(bands_bytes, alignof(float), &bands_bytes)) {
    FailInvalid("self: there is no workspace for planes of shape " + DimsText(arguments.self->view_dims));
  }
  plan.AddScratch(bands_bytes);
  plan.PromiseTimeOfBytes();
  plan.SetCompute([run = AtVectorLevel<MaxPool2dWithMaskBackward>(), pool, kind, bands,
                   type = arguments.self->data_type](const Launch& launch) { run(pool, kind, type, bands, launch); });
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
