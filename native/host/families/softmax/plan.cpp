// The gradients of softmax and of its logarithm: their checks, which differ in their order, and their plans.
#include "families/softmax/rows.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910A, Product::k910B, Product::k910_93, Product::k310P, Product::k950};

struct Tensors {
  explicit Tensors(const SoftmaxBackwardArguments& given)
      : grad_output("gradOutput", given.grad_output), output("output", given.output), out("out", given.out) {}

  Argument grad_output;
  Argument output;
  Argument out;
};

// A device casts the gradient to any type; this one to those that it computes with.
void CheckTypes(const Tensors& tensors) {
  const auto types = FloatTypes();
  CheckDataType(tensors.grad_output, types);
  CheckDataType(tensors.output, types);
  CheckSameDataType(tensors.output, tensors.grad_output);
  CheckDataType(tensors.out, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
}

void CheckShapes(const Tensors& tensors) {
  for (const Argument& each : {tensors.grad_output, tensors.output, tensors.out}) CheckMostDims(each);
  CheckSameShape(tensors.output, tensors.grad_output);
  CheckSameShape(tensors.out, tensors.grad_output);
  CheckNoNegativeDim(tensors.grad_output);
}

// Products but the 950 answer empty tensors before they look at anything else.
bool IsAnsweredUnchecked(const Tensors& tensors) {
  return CurrentProduct() != Product::k950 && (tensors.grad_output.tensor.empty() || tensors.output.tensor.empty());
}

Plan MakePlan(RowFunction function, const Tensors& tensors, int64_t dim) {
  if (tensors.grad_output.tensor.empty()) return {};
  Plan plan = PlanOf({tensors.grad_output, tensors.output}, {tensors.out});
  const RowGradient work{RowsOf(tensors.grad_output, dim),
                         function,
                         {0, tensors.grad_output.tensor.data_type},
                         {1, tensors.output.tensor.data_type},
                         {0, tensors.out.tensor.data_type}};
  if (work.rows.parts_bytes() > 0) plan.AddScratch(work.rows.parts_bytes());
  plan.PromiseTimeOfBytes();
  plan.SetKernel<RowGradients>(work);
  return plan;
}

}  // namespace

Plan PlanSoftmaxBackward(const SoftmaxBackwardArguments& given) {
  CheckProduct(kProducts);
  const Tensors tensors(given);
  if (IsAnsweredUnchecked(tensors)) return {};
  CheckTypes(tensors);
  CheckAxis(tensors.grad_output, given.dim);
  CheckShapes(tensors);
  return MakePlan(RowFunction::kSoftmax, tensors, given.dim);
}

Plan PlanLogSoftmaxBackward(const LogSoftmaxBackwardArguments& given) {
  CheckProduct(kProducts);
  const Tensors tensors(given);
  if (IsAnsweredUnchecked(tensors)) return {};
  CheckTypes(tensors);
  CheckShapes(tensors);
  CheckAxis(tensors.grad_output, given.dim);
  return MakePlan(RowFunction::kLogSoftmax, tensors, given.dim);
}

}  // namespace acl_host
