// aclnnPreluBackward: its checks, in CANN's order, and its plan.
#include "computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

struct Tensors {
  Argument grad_output;
  Argument self;
  Argument weight;
  Argument grad_input;
  Argument grad_weight;
};

// Returns the sizes.
Prelu CheckShapes(const Tensors& tensors) {
  const auto& [grad_output, self, weight, grad_input, grad_weight] = tensors;
  for (const Argument& each : {grad_output, self, weight, grad_input, grad_weight}) {
    CheckMostDims(each);
    CheckNoNegativeDim(each);
  }
  CheckSameShape(grad_input, self);
  const Dims& dims = self.tensor.view_dims;
  const int64_t weights = ElementCount(weight.tensor.view_dims);
  Prelu prelu{1, 1, ElementCount(dims), self.tensor.data_type};
  if (weights == 1) {
    CheckSameShape(grad_weight, weight);
  } else {
    if (dims.size() < 2 || weights != dims[1]) FailShape(weight, "one element, or one for each channel, dim 1 of self");
    CheckShape(grad_weight, "a list of the gradients of all channels", {weights});
    prelu.samples = dims[0];
    prelu.channels = weights;
    prelu.cells = ElementCount(Dims(dims.begin() + 2, dims.end()));
  }
  // A device broadcasts it.
  CheckSameShape(grad_output, self);
  return prelu;
}

}  // namespace

Plan PlanPreluBackward(const PreluBackwardArguments& given) {
  CheckProduct(kNot310P);
  const Tensors tensors{{"gradOutput", given.grad_output},
                        {"self", given.self},
                        {"weight", given.weight},
                        {"gradInput", given.grad_input},
                        {"gradWeight", given.grad_weight}};
  const auto& [grad_output, self, weight, grad_input, grad_weight] = tensors;
  CheckDataType(self, FloatTypes());
  for (const Argument& each : {grad_output, weight, grad_input, grad_weight}) CheckSameDataType(each, self);
  const Prelu prelu = CheckShapes(tensors);
  Plan plan;
  if (weight.tensor.empty()) return plan;
  if (self.tensor.empty()) {
    // A device leaves it as it is.
    plan = PlanOf({}, {grad_weight});
    plan.SetZeros();
    return plan;
  }
  plan = PlanOf({grad_output, self, weight}, {grad_input, grad_weight});
  if (prelu.sum_bytes() > 0) plan.AddScratch(prelu.sum_bytes());
  plan.PromiseTimeOfBytes();
  plan.SetKernel<PreluGradient>(prelu);
  return plan;
}

}  // namespace acl_host
