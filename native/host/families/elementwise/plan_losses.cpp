// The gradients of losses of each element: their checks, in CANN's order and with CANN's codes, and their plans.
#include <string>

#include "families/elementwise/rules.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

enum Reduction : int64_t { kNone, kMean, kSum, kBatchMean };

void CheckReduction(int64_t reduction, int64_t most = kSum) {
  if (kNone <= reduction && reduction <= most) return;
  FailInvalid("reduction: expected a value from 0 to " + std::to_string(most) + ", got " + std::to_string(reduction));
}

// What the gradient of each loss is multiplied by, if its reduction is of so many; 0 of none.
float FactorOf(int64_t reduction, int64_t count) {
  return reduction == kMean && count != 0 ? static_cast<float>(1.0 / static_cast<double>(count)) : 1.0F;
}

float FactorOf(int64_t reduction, const Argument& self) {
  return FactorOf(reduction, ElementCount(self.tensor.view_dims));
}

}  // namespace

Plan PlanMseLossBackward(const MseLossBackwardArguments& given) {
  CheckProduct({Product::k910B, Product::k910_93, Product::k310P, Product::k950});
  const Argument self{"self", given.self};
  const ElementwiseTensors tensors{{Argument{"gradOutput", given.grad_output}, self, Argument{"target", given.target}},
                                   {"out", given.out}};
  const ElementwiseRules rules{FloatTypes(), Types::kEqualInputs};
  CheckTypes(rules, tensors);
  CheckReduction(given.reduction);
  CheckRanks(rules, tensors);
  CheckShapes(rules, tensors);
  return PlanElementwise(tensors, Function::kMseLoss, {FactorOf(given.reduction, self)});
}

// The mean is of the losses after broadcasting.
Plan PlanL1LossBackward(const L1LossBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const ElementwiseTensors tensors{
      {Argument{"gradOutput", given.grad_output}, Argument{"self", given.self}, Argument{"target", given.target}},
      {"gradInput", given.grad_input}};
  CheckReduction(given.reduction);
  return CheckAndPlan({FloatTypes(), Types::kCast}, tensors, Function::kL1Loss,
                      {FactorOf(given.reduction, tensors.result)});
}

// CANN takes any beta from 0 on; next to 0 the devices differ, up to NaN.
Plan PlanSmoothL1LossBackward(const SmoothL1LossBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const ElementwiseTensors tensors{{Argument{"gradOut", given.grad_out}, self, Argument{"target", given.target}},
                                   {"gradInput", given.grad_input}};
  const ElementwiseRules rules{FloatTypes(), Types::kCast};
  CheckTypes(rules, tensors);
  CheckRanks(rules, tensors);
  CheckReduction(given.reduction);
  if (!(given.beta >= 1e-6F)) FailInvalid("beta: expected at least 1e-6, got " + std::to_string(given.beta));
  CheckShapes(rules, tensors);
  return PlanElementwise(tensors, Function::kSmoothL1Loss, {FactorOf(given.reduction, self), given.beta});
}

Plan PlanBinaryCrossEntropyBackward(const BinaryCrossEntropyBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const Argument grad_output{"gradOutput", given.grad_output};
  const Argument self{"self", given.self};
  const Argument target{"target", given.target};
  const OptionalArgument weight = IfGiven("weightOptional", given.weight_optional);
  const ElementwiseTensors tensors{{grad_output, self, target, weight}, {"out", given.out}};
  const ElementwiseRules rules{FloatTypes(), Types::kCast, Shapes::kToSelf};
  CheckRanks(rules, tensors);
  CheckTypes(rules, tensors);
  CheckSameFormat(target, self);
  if (weight) CheckSameFormat(*weight, self);
  if (!self.tensor.empty()) CheckShapes(rules, tensors);
  CheckReduction(given.reduction);
  return PlanElementwise(tensors, Function::kBinaryCrossEntropy, {FactorOf(given.reduction, self)});
}

Plan PlanBinaryCrossEntropyWithLogitsBackward(const BinaryCrossEntropyWithLogitsBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const Argument grad_output{"gradOutput", given.grad_output};
  const Argument self{"self", given.self};
  const Argument target{"target", given.target};
  const Argument out{"out", given.out};
  const OptionalArgument weight = IfGiven("weightOptional", given.weight_optional);
  const OptionalArgument pos_weight = IfGiven("posWeightOptional", given.pos_weight_optional);
  const ElementwiseTensors tensors{{grad_output, self, target, weight, pos_weight}, out};
  const ElementwiseRules rules{FloatTypes(), Types::kCast, Shapes::kToSelf};
  CheckRanks(rules, tensors);
  CheckTypes(rules, tensors);
  CheckSameDataType(out, target);
  CheckSameFormat(target, self);
  CheckSameFormat(out, self);
  if (!self.tensor.empty()) {
    CheckSameShape(target, self);
    CheckShapes(rules, tensors);
  }
  CheckReduction(given.reduction);
  const Function function =
      weight || pos_weight ? Function::kWeightedBinaryCrossEntropyWithLogits : Function::kBinaryCrossEntropyWithLogits;
  return PlanElementwise(tensors, function, {FactorOf(given.reduction, self)});
}

// CANN takes any other reduction for none. It would sum what a target of more elements than self gives.
Plan PlanKlDivBackward(const KlDivBackwardArguments& given) {
  CheckProduct({Product::k910B, Product::k910_93, Product::k950});
  const Argument self{"self", given.self};
  const ElementwiseTensors tensors{{Argument{"gradOutput", given.grad_output}, self, Argument{"target", given.target}},
                                   {"out", given.out}};
  const ElementwiseRules rules{FloatTypes(), Types::kCast, Shapes::kToSelf};
  CheckTypes(rules, tensors);
  CheckRanks(rules, tensors);
  CheckShapes(rules, tensors);
  CheckReduction(given.reduction, kBatchMean);
  const Dims& dims = self.tensor.view_dims;
  const bool is_batch_mean = given.reduction == kBatchMean && !dims.empty();
  const float factor = is_batch_mean ? FactorOf(kMean, dims.front()) : FactorOf(given.reduction, self);
  return PlanElementwise(tensors, given.log_target ? Function::kKlDivOfLogTarget : Function::kKlDiv, {factor});
}

}  // namespace acl_host
