// aclnnMseLoss, aclnnSmoothL1Loss and aclnnBinaryCrossEntropyWithLogits: their checks, in CANN's order, and their
// plans.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "families/elementwise/rules.h"
#include "families/losses/computation.h"
#include "families/rows/fills.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

LossReduction CheckReduction(int64_t reduction) {
  constexpr LossReduction kReductions[] = {LossReduction::kNone, LossReduction::kMean, LossReduction::kSum};
  if (0 <= reduction && reduction <= 2) return kReductions[reduction];
  FailInvalid("reduction: expected a value from 0 to 2, got " + std::to_string(reduction));
}

// Returns the shape of both after broadcasting.
Dims CheckBroadcast(const Argument& self, const Argument& target) {
  for (const Argument& each : {self, target}) {
    CheckMostDims(each);
    CheckNoNegativeDim(each);
  }
  std::optional<Dims> dims = BroadcastDims(self.tensor.view_dims, target.tensor.view_dims);
  if (!dims) FailShape(target, "a shape that can be broadcast with that of self, " + DimsText(self.tensor.view_dims));
  return *std::move(dims);
}

// Of losses that are reduced to one number; some devices take one of several dims.
void CheckOne(const Argument& out) {
  CheckNoNegativeDim(out);
  if (ElementCount(out.tensor.view_dims) != 1) FailShape(out, "one element");
}

void CheckOut(const Argument& out, LossReduction reduction, const Dims& dims) {
  reduction == LossReduction::kNone ? CheckShape(out, "the shape of the inputs after broadcasting", dims)
                                    : CheckOne(out);
}

// Of inputs that are broadcast to these dims; those that are null are ones.
Plan MakePlan(LossFunction function, LossReduction reduction, const std::vector<OptionalArgument>& inputs,
              const Argument& out, const Dims& dims, float beta = 0) {
  const int64_t count = ElementCount(dims);
  if (count == 0) {
    if (reduction == LossReduction::kNone) return {};
    return FillsOf({{out, reduction == LossReduction::kMean ? std::numeric_limits<float>::quiet_NaN() : 0}});
  }
  Loss loss{function, reduction, {}, out.tensor.data_type, count, true, beta};
  const aclDataType type = inputs[0]->tensor.data_type;
  loss.is_alike = reduction != LossReduction::kNone || out.tensor.data_type == type;
  Plan plan;
  for (const OptionalArgument& each : inputs) {
    if (!each) {
      loss.inputs.push_back({type, /*is_given=*/false});
      continue;
    }
    CheckAddressable(*each);
    loss.inputs.push_back(InputOf(*each, dims));
    loss.is_alike = loss.is_alike && each->tensor.data_type == type;
    plan.AddStridedInput(each->tensor);
  }
  CheckAddressable(out);
  plan.AddOutput(out.tensor);
  if (reduction != LossReduction::kNone) plan.AddScratch((static_cast<uint64_t>(loss.parts()) + 1) * sizeof(double));
  plan.PromiseTimeOfBytes();
  plan.SetKernel<LossValues>(loss);
  return plan;
}

}  // namespace

Plan PlanMseLoss(const MseLossArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument target{"target", given.target};
  const Argument out{"out", given.out};
  for (const Argument& each : {self, target, out}) CheckDataType(each, FloatTypes());
  const LossReduction reduction = CheckReduction(given.reduction);
  const Dims dims = CheckBroadcast(self, target);
  CheckOut(out, reduction, dims);
  if (reduction != LossReduction::kNone) CheckRank(out, {0});
  return MakePlan(LossFunction::kMse, reduction, {self, target}, out, dims);
}

// CANN takes any beta from 0 on; next to 0 the devices differ, up to NaN. It compares a reduced result when it copies
// it.
Plan PlanSmoothL1Loss(const SmoothL1LossArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument target{"target", given.target};
  const Argument result{"result", given.result};
  for (const Argument& each : {self, target, result}) CheckDataType(each, FloatTypes());
  const LossReduction reduction = CheckReduction(given.reduction);
  const Dims dims = CheckBroadcast(self, target);
  CheckOut(result, reduction, dims);
  if (!(given.beta >= 1e-6F)) FailInvalid("beta: expected at least 1e-6, got " + std::to_string(given.beta));
  return MakePlan(LossFunction::kSmoothL1, reduction, {self, target}, result, dims, given.beta);
}

Plan PlanBinaryCrossEntropyWithLogits(const BinaryCrossEntropyWithLogitsArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument target{"target", given.target};
  const OptionalArgument weight = IfGiven("weightOptional", given.weight_optional);
  const OptionalArgument pos_weight = IfGiven("posWeightOptional", given.pos_weight_optional);
  const Argument out{"out", given.out};
  for (const Argument& each : {self, target, out}) CheckDataType(each, FloatTypes());
  CheckSameDataType(target, out);
  const LossReduction reduction = CheckReduction(given.reduction);
  const Dims& dims = target.tensor.view_dims;
  for (const auto& each : {OptionalArgument{self}, OptionalArgument{target}, weight, pos_weight}) {
    if (each) CheckMostDims(*each);
  }
  CheckSameShape(target, self);
  CheckNoNegativeDim(self);
  for (const auto& each : {weight, pos_weight}) {
    if (!each) continue;
    // CANN casts these without a look at their types.
    CheckDataType(*each, FloatTypes());
    CheckNoNegativeDim(*each);
    if (!target.tensor.empty() && BroadcastDims(each->tensor.view_dims, dims) != dims) {
      FailShape(*each, "a shape that is broadcast to that of target, " + DimsText(dims));
    }
  }
  CheckOut(out, reduction, dims);
  if (!weight && !pos_weight)
    return MakePlan(LossFunction::kCrossEntropyOfLogits, reduction, {self, target}, out, dims);
  return MakePlan(LossFunction::kWeightedCrossEntropyOfLogits, reduction, {self, target, weight, pos_weight}, out,
                  dims);
}

}  // namespace acl_host
