// aclnnNLLLossBackward and aclnnNLLLoss2dBackward: their checks, in CANN's order, and their plans.
#include <string>

#include "families/class_losses/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

struct NllTensors {
  Argument grad_output;
  Argument self;
  Argument target;
  Argument weight;
  Argument total_weight;
  Argument out;
};

enum Reduction : int64_t { kNone, kMean, kSum };

void CheckTypes(const NllTensors& tensors) {
  const auto& [grad_output, self, target, weight, total_weight, out] = tensors;
  CheckDataType(self, FloatTypes());
  for (const Argument& each : {weight, grad_output, total_weight, out}) CheckSameDataType(each, self);
  CheckDataType(target, {ACL_INT64, ACL_INT32, ACL_UINT8});
}

void CheckReduction(int64_t reduction) {
  if (kNone <= reduction && reduction <= kSum) return;
  FailInvalid("reduction: expected from 0 to 2, got " + std::to_string(reduction));
}

void CheckCount(const Argument& argument, int64_t count) {
  CheckNoNegativeDim(argument);
  if (ElementCount(argument.tensor.view_dims) == count) return;
  FailShape(argument, "as many elements as " + std::to_string(count));
}

// With a gradient for each target, or with one number.
void CheckGradient(const NllTensors& tensors, bool for_each_target) {
  if (for_each_target) return CheckSameShape(tensors.grad_output, tensors.target);
  CheckRank(tensors.grad_output, {0, 1});
  CheckCount(tensors.grad_output, 1);
}

// A device compares only one of the dims of a sample's target.
void CheckTargets(const NllTensors& tensors) {
  Dims expected = tensors.self.tensor.view_dims;
  expected.erase(expected.end() - (expected.size() == 4 ? 3 : 1));
  CheckShape(tensors.target, "a target for each sample", expected);
}

Plan MakeNllPlan(const NllTensors& tensors, int64_t reduction, int64_t ignore_index) {
  // A device compares 32 bits.
  if (ignore_index != static_cast<int32_t>(ignore_index)) {
    FailInvalid("ignoreIndex: expected 32 bits, got " + std::to_string(ignore_index));
  }
  const auto& [grad_output, self, target, weight, total_weight, out] = tensors;
  CheckNoNegativeDim(self);
  CheckAddressable(self);
  if (self.tensor.empty()) return {};
  Plan plan = PlanOf({grad_output, target, weight, total_weight}, {out});
  const int64_t targets = ElementCount(target.tensor.view_dims);
  const int64_t classes = ElementCount(weight.tensor.view_dims);
  const bool has_cells = self.tensor.rank() == 4;
  const int64_t samples = has_cells ? self.tensor.view_dims[0] : targets;
  plan.PromiseTimeOfBytes();
  plan.SetKernel<NllLossBackward>(NllLoss{samples,
                                          targets / samples,
                                          {target.tensor.data_type, classes, ignore_index},
                                          self.tensor.data_type,
                                          reduction == kMean,
                                          reduction != kNone});
  return plan;
}

}  // namespace

Plan PlanNLLLossBackward(const NLLLossBackwardArguments& given) {
  CheckProduct(kNot310P);
  const NllTensors tensors{
      {"gradOutput", given.grad_output},   {"self", given.self}, {"target", given.target}, {"weight", given.weight},
      {"totalWeight", given.total_weight}, {"out", given.out}};
  const auto& [grad_output, self, target, weight, total_weight, out] = tensors;
  CheckTypes(tensors);
  CheckReduction(given.reduction);
  CheckRank(self, {1, 2});
  CheckTargets(tensors);
  CheckShape(weight, "a weight for each class", {self.tensor.view_dims.back()});
  CheckCount(total_weight, 1);
  CheckGradient(tensors, given.reduction == kNone && self.tensor.rank() == 2);
  CheckSameShape(out, self);
  return MakeNllPlan(tensors, given.reduction, given.ignore_index);
}

Plan PlanNLLLoss2dBackward(const NLLLoss2dBackwardArguments& given) {
  CheckProduct(kNot310P);
  const Argument grad_output{"gradOutput", given.grad_output};
  const Argument self{"self", given.self};
  const Argument target{"target", given.target};
  const Argument weight{"weight", given.weight};
  const Argument out{"out", given.out};
  const NllTensors tensors{grad_output, self, target, weight, {"totalWeight", given.total_weight}, out};
  CheckTypes(tensors);
  CheckGradient(tensors, given.reduction == kNone);
  CheckRank(self, {4});
  CheckTargets(tensors);
  CheckCount(weight, self.tensor.view_dims[1]);
  CheckSameShape(out, self);
  CheckCount(tensors.total_weight, 1);
  CheckReduction(given.reduction);
  return MakeNllPlan(tensors, given.reduction, given.ignore_index);
}

}  // namespace acl_host
