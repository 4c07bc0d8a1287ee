// aclnnNLLLoss, aclnnNLLLossBackward and aclnnNLLLoss2dBackward: their checks, in CANN's order, and their plans.
#include <limits>
#include <string>

#include "families/class_losses/computation.h"
#include "families/rows/fills.h"
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

// A device compares 32 bits.
void CheckIgnoreIndex(int64_t ignore_index) {
  if (ignore_index == static_cast<int32_t>(ignore_index)) return;
  FailInvalid("ignoreIndex: expected 32 bits, got " + std::to_string(ignore_index));
}

Plan MakeNllPlan(const NllTensors& tensors, int64_t reduction, int64_t ignore_index) {
  CheckIgnoreIndex(ignore_index);
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

// A loss for each sample, or one number.
void CheckLoss(const Argument& out, const Argument& self, bool for_each_sample) {
  if (for_each_sample) return CheckShape(out, "a loss for each sample", {self.tensor.view_dims.front()});
  CheckRank(out, {0, 1});
  CheckCount(out, 1);
}

// The mean of nothing is not a number, and its sum is 0.
Plan FillLoss(int64_t reduction, const Argument& out, const Argument& total_weight) {
  if (reduction == kNone) return {};
  return FillsOf({{out, reduction == kMean ? std::numeric_limits<float>::quiet_NaN() : 0}, {total_weight, 0}});
}

}  // namespace

// A device casts the results to any type; this one to those that it computes with.
Plan PlanNLLLoss(const NLLLossArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument target{"target", given.target};
  const Argument weight{"weight", given.weight};
  const Argument out{"out", given.out};
  const Argument total_weight{"totalWeightOut", given.total_weight_out};
  CheckSameDataType(weight, self);
  for (const Argument& each : {out, total_weight, self}) CheckDataType(each, FloatTypes());
  CheckDataType(target, {ACL_INT64, ACL_INT32, ACL_UINT8});
  CheckReduction(given.reduction);
  CheckRank(self, {1, 2});
  CheckNoNegativeDim(self);
  const Dims& dims = self.tensor.view_dims;
  CheckShape(target, "a target for each sample", Dims(dims.begin(), dims.end() - 1));
  CheckShape(weight, "a weight for each class", {dims.back()});
  CheckLoss(out, self, given.reduction == kNone && dims.size() == 2);
  CheckCount(total_weight, 1);
  CheckIgnoreIndex(given.ignore_index);
  if (self.tensor.empty()) {
    if (!target.tensor.empty()) FailShape(self, "a class for each target");
    return FillLoss(given.reduction, out, total_weight);
  }
  Plan plan = PlanOf({self, target, weight}, {out, total_weight});
  const NllLossValues loss{ElementCount(target.tensor.view_dims),
                           {target.tensor.data_type, dims.back(), given.ignore_index},
                           self.tensor.data_type,
                           out.tensor.data_type,
                           total_weight.tensor.data_type,
                           given.reduction == kMean,
                           given.reduction != kNone};
  if (loss.is_reduced) plan.AddScratch((static_cast<uint64_t>(loss.parts()) + 1) * 2 * sizeof(double));
  plan.PromiseTimeOfBytes();
  plan.SetKernel<NllLossForward>(loss);
  return plan;
}

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
