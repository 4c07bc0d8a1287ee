// aclnnAdaptiveAvgPool2dBackward: its checks and its plan.
#include "families/average_pool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910A, Product::k910B, Product::k910_93, Product::k310P, Product::k950};

}  // namespace

Plan PlanAdaptiveAvgPool2dBackward(const AdaptiveAvgPool2dBackwardArguments& arguments) {
  CheckProduct(kProducts);
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const Argument out{"out", arguments.out};

  CheckSameRank(grad_output, self);
  CheckNoNegativeDim(grad_output);
  CheckNoNegativeDim(self);

  CheckRank(out, {3, 4});
  CheckSameRank(out, self);
  const int64_t leading = self.tensor.rank() - 2;
  CheckSameLeadingDims(out, self, leading);
  CheckSameLeadingDims(grad_output, self, leading);

  CheckDataType(grad_output, FloatTypes());
  CheckDataType(self, FloatTypes());
  CheckSameDataType(grad_output, self);

  CheckSameFormat(grad_output, self);
  CheckNotPrivateFormat(grad_output);

  // A device does not check these and writes out of bounds; here a difference is an error.
  CheckSameShape(out, self);
  CheckSameDataType(out, self);
  Plan plan = PlanOf({grad_output}, {out});
  if (grad_output.tensor.empty() || self.tensor.empty()) return {};

  const Dims& in = self.tensor.view_dims;
  const Dims& pooled = grad_output.tensor.view_dims;
  const size_t axis = in.size() - 2;
  const int64_t planes = ElementCount(in) / in[axis] / in[axis + 1];
  const AveragePool pool{planes, kNotPooled, {in[axis], pooled[axis]}, {in[axis + 1], pooled[axis + 1]}};
  plan.PromiseTimeOfBytes();
  plan.SetKernel<AveragePoolBackward>(pool, self.tensor.data_type);
  return plan;
}

}  // namespace acl_host
