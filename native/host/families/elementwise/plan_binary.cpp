// Functions of two tensors and a condition: their checks, in CANN's order and with CANN's codes, and their plans.
#include <string>

#include "families/elementwise/operation_rules.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

aclDataType PromotedOf(const Argument& self, const Argument& other) {
  return Promoted(self.tensor.data_type, other.tensor.data_type);
}

Plan CheckAndPlanSum(const AddArguments& given, bool is_difference) {
  CheckProduct(kNot310P);
  const Argument self{"self", given.self};
  const Argument other{"other", given.other};
  const NumberArgument alpha{"alpha", given.alpha};
  const Argument out{"out", given.out};
  CheckDataTypes({self, other}, NumberTypes());
  const aclDataType promoted = PromotedOf(self, other);
  CheckCast(alpha, promoted);
  CheckCast(promoted, out);
  // A difference of both has no meaning; devices differ.
  if (is_difference && promoted == ACL_BOOL) FailInvalid("self: expected numbers, got BOOL as other");
  const ElementwiseTensors tensors{{self, other}, out};
  CheckBroadcast(tensors);
  Number factor = alpha.number();
  if (is_difference) factor = {-factor.real, static_cast<int64_t>(-static_cast<uint64_t>(factor.integer))};
  return PlanOperation(tensors, {Operation::kAdd, factor}, promoted);
}

Plan CheckAndPlanProduct(const MulArguments& given, Operation operation) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument other{"other", given.other};
  const Argument out{"out", given.out};
  CheckDataTypes({self, other, out}, NumberTypes());
  const aclDataType promoted = PromotedOf(self, other);
  CheckCast(promoted, out);
  const ElementwiseTensors tensors{{self, other}, out};
  CheckBroadcast(tensors);
  return PlanOperation(tensors, {operation}, promoted);
}

Plan CheckAndPlanComparison(const EqTensorArguments& given, Operation operation) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument other{"other", given.other};
  const Argument out{"out", given.out};
  CheckDataTypes({self, other, out}, NumberTypes());
  const ElementwiseTensors tensors{{self, other}, out};
  CheckBroadcast(tensors);
  return PlanComparison(tensors, {operation}, PromotedOf(self, other));
}

}  // namespace

Plan PlanAdd(const AddArguments& given) { return CheckAndPlanSum(given, false); }

Plan PlanSub(const SubArguments& given) { return CheckAndPlanSum(given, true); }

Plan PlanMul(const MulArguments& given) { return CheckAndPlanProduct(given, Operation::kMultiply); }

Plan PlanMaximum(const MaximumArguments& given) { return CheckAndPlanProduct(given, Operation::kMaximum); }

Plan PlanMinimum(const MinimumArguments& given) { return CheckAndPlanProduct(given, Operation::kMinimum); }

Plan PlanEqTensor(const EqTensorArguments& given) { return CheckAndPlanComparison(given, Operation::kEqual); }

Plan PlanGtTensor(const GtTensorArguments& given) { return CheckAndPlanComparison(given, Operation::kGreater); }

// Some devices cast quotients of integers to integers.
Plan PlanDiv(const DivArguments& given) {
  CheckProduct(kNot310P);
  const Argument out{"out", given.out};
  const Argument other{"other", given.other};
  const Argument self{"self", given.self};
  const ElementwiseTensors tensors{{self, other}, out};
  CheckBroadcast(tensors);
  CheckDataTypes({other, self}, NumberTypes());
  const aclDataType promoted = RealOf(PromotedOf(self, other));
  CheckCast(promoted, out);
  for (const Argument& each : {self, other, out}) CheckNotPrivateFormat(each);
  return PlanOperation(tensors, {Operation::kDivide}, promoted);
}

// CANN does not look whether the result can be cast.
Plan PlanSWhere(const SWhereArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument other{"other", given.other};
  const Argument condition{"condition", given.condition};
  const Argument out{"out", given.out};
  CheckDataTypes({self, other, out}, NumberTypes());
  CheckDataType(condition, {ACL_BOOL, ACL_UINT8});
  const ElementwiseTensors tensors{{condition, self, other}, out};
  CheckBroadcast(tensors);
  const aclDataType promoted = PromotedOf(self, other);
  CheckCast(promoted, out);
  return PlanOperation(tensors, {Operation::kWhere}, promoted);
}

}  // namespace acl_host
