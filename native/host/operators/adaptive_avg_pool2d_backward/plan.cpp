// aclnnAdaptiveAvgPool2dBackward: its checks and its plan.
#include "aclnnop/aclnn_adaptive_avg_pool2d_backward.h"
#include "families/average_pool/computation.h"
#include "plan/checks.h"
#include "plan/executor.h"

namespace acl_host {
namespace {

void Check(const aclTensor* grad_output_pointer, const aclTensor* self_pointer, const aclTensor* out_pointer) {
  const Product& product = CurrentProduct();
  CheckProduct(product, {"910A", "910B", "910_93", "310P", "950"});
  const Argument grad_output{"gradOutput", grad_output_pointer};
  const Argument self{"self", self_pointer};
  const Argument out{"out", out_pointer};

  CheckSameRank(grad_output, self);
  CheckNoNegativeDim(grad_output);
  CheckNoNegativeDim(self);

  CheckRank(out, {3, 4});
  CheckSameRank(out, self);
  const int64_t leading = self.tensor.rank() - 2;
  CheckSameLeadingDims(out, self, leading);
  CheckSameLeadingDims(grad_output, self, leading);

  CheckDataType(grad_output, FloatTypes(product));
  CheckDataType(self, FloatTypes(product));
  CheckSameDataType(grad_output, self);

  CheckSameFormat(grad_output, self);
  CheckNotPrivateFormat(grad_output);

  // A device does not check these and writes out of bounds; here a difference is an error.
  CheckSameShape(out, self);
  CheckSameDataType(out, self);
  CheckAddressable(grad_output);
  CheckAddressable(out);
}

Plan MakePlan(const aclTensor* grad_output, const aclTensor* self, const aclTensor* out) {
  Check(grad_output, self, out);
  Plan plan;
  if (grad_output->empty() || self->empty()) return plan;

  const Dims& in = self->view_dims;
  const Dims& pooled = grad_output->view_dims;
  const size_t axis = in.size() - 2;
  const int64_t planes = ElementCount(in) / in[axis] / in[axis + 1];
  (void)ElementCount(pooled);
  const AveragePool pool{planes, kNotPooled, {in[axis], pooled[axis]}, {in[axis + 1], pooled[axis + 1]}};
  plan.AddInput(*grad_output);
  plan.AddOutput(*out);
  plan.PromiseTimeOfBytes();
  plan.SetCompute([run = AtVectorLevel<AveragePoolBackward>(), pool, type = self->data_type](const Launch& launch) {
    run(pool, type, launch);
  });
  return plan;
}

}  // namespace
}  // namespace acl_host

aclnnStatus aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           aclTensor* out, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor) {
  return acl_host::PlanOperator(__func__, workspaceSize, executor,
                                [&] { return acl_host::MakePlan(gradOutput, self, out); });
}

aclnnStatus aclnnAdaptiveAvgPool2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           const aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
