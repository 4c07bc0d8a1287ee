// Functions of a tensor and numbers: their checks, in CANN's order and with CANN's codes, and their plans.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "families/elementwise/operation_rules.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "tensors/data_type.h"
#include "tensors/elements.h"
#include "tensors/half.h"

namespace acl_host {
namespace {

// As a number of the tensor's type, which PyTorch makes of it.
Number RoundedTo(aclDataType type, Number number) {
  if (type == ACL_FLOAT16) number.real = Float16::FromFloat(static_cast<float>(number.real)).ToFloat();
  if (type == ACL_BF16) number.real = BFloat16::FromFloat(static_cast<float>(number.real)).ToFloat();
  return number;
}

Plan CheckAndPlanComparison(const GtScalarArguments& given, Operation operation) {
  const Argument self{"self", given.self};
  const NumberArgument other{"other", given.other};
  const Argument out{"out", given.out};
  CheckDataType(self, NumberTypes());
  CheckNumberType(other, NumberTypes());
  CheckDataType(out, NumberTypes());
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors);
  const aclDataType promoted = PromotedWithNumber(self.tensor.data_type, other.type());
  const Number number = RoundedTo(promoted, other.number());
  return PlanComparison(tensors, {operation, number, {}, /*takes_number=*/true}, promoted);
}

// Whether an integer type has the number.
bool Holds(aclDataType type, int64_t number) {
  bool holds = true;
  VisitNumberType(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_integral_v<T>) holds = static_cast<T>(number) == number;
  });
  return holds;
}

void CheckHolds(const NumberArgument& argument, aclDataType type) {
  if (!IsWhole(type) || Holds(type, argument.number().integer)) return;
  FailInvalid(std::string(argument.name) + ": expected a number of " + DataTypeName(type) + ", got " +
              std::to_string(argument.number().integer));
}

constexpr Number kLeast{-std::numeric_limits<double>::infinity(), std::numeric_limits<int64_t>::min()};
constexpr Number kLargest{std::numeric_limits<double>::infinity(), std::numeric_limits<int64_t>::max()};

// The other number, if none is given.
Number BoundOf(const char* name, const aclScalar* scalar, aclDataType type, const Number& otherwise) {
  if (scalar == nullptr) return otherwise;
  const NumberArgument given{name, scalar};
  CheckHolds(given, type);
  return given.number();
}

// Powers that devices, and PyTorch, have formulas of their own for.
OperationOf PowerOf(const Number& exponent) {
  const double power = exponent.real;
  if (power == 1) return {Operation::kMultiply, {1, 1}, {}, /*takes_number=*/true};
  if (power == 2) return {Operation::kSquare};
  if (power == 3) return {Operation::kCube};
  if (power == 0.5) return {Operation::kSqrt};
  if (power == -0.5) return {Operation::kRsqrt};
  if (power == -1) return {Operation::kReciprocal};
  if (power == -2) return {Operation::kReciprocalSquare};
  return {Operation::kPower, exponent};
}

}  // namespace

Plan PlanAdds(const AddsArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const NumberArgument other{"other", given.other};
  const NumberArgument alpha{"alpha", given.alpha};
  const Argument out{"out", given.out};
  CheckDataType(self, NumberTypes());
  CheckNumberType(other, NumberTypes());
  const aclDataType promoted = PromotedWithNumber(self.tensor.data_type, other.type());
  CheckCast(alpha, promoted);
  CheckCast(promoted, out);
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors);
  const Number one = other.number();
  const Number factor = alpha.number();
  const uint64_t whole = static_cast<uint64_t>(one.integer) * static_cast<uint64_t>(factor.integer);
  const Number summand{one.real * factor.real, static_cast<int64_t>(whole)};
  return PlanOperation(tensors, {Operation::kAdd, summand, {}, /*takes_number=*/true}, promoted);
}

// CANN limits no rank.
Plan PlanMuls(const MulsArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const NumberArgument other{"other", given.other};
  const Argument out{"out", given.out};
  CheckDataTypes({self, out}, NumberTypes());
  CheckNumberType(other, NumberTypes());
  const aclDataType promoted = PromotedWithNumber(self.tensor.data_type, other.type());
  CheckCast(promoted, out);
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors, /*limits_rank=*/false);
  return PlanOperation(tensors, {Operation::kMultiply, other.number(), {}, /*takes_number=*/true}, promoted);
}

// Some devices cast quotients of integers to integers.
Plan PlanDivs(const DivsArguments& given) {
  CheckProduct(kNot310P);
  const Argument self{"self", given.self};
  const NumberArgument other{"other", given.other};
  const Argument out{"out", given.out};
  for (const Argument& each : {out, self}) CheckNotPrivateFormat(each);
  CheckNumberType(other, NumberTypes());
  CheckDataType(self, NumberTypes());
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors);
  const aclDataType promoted = RealOf(self.tensor.data_type);
  CheckCast(promoted, out);
  return PlanOperation(tensors, {Operation::kDivide, other.number(), {}, /*takes_number=*/true}, promoted);
}

// Devices differ in what negative powers of integers are, and those of integers that the type does not have.
Plan PlanPowTensorScalar(const PowTensorScalarArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const NumberArgument exponent{"exponent", given.exponent};
  const Argument out{"out", given.out};
  CheckDataType(self, NumberTypes());
  CheckNumberType(exponent, NumberTypes());
  const aclDataType promoted = PromotedWithNumber(self.tensor.data_type, exponent.type());
  CheckCast(promoted, out);
  if (promoted == ACL_BOOL) FailInvalid("exponent: expected a number for BOOL that is not BOOL itself");
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors);
  const Number power = exponent.number();
  if (self.tensor.empty()) return PlanOperation(tensors, PowerOf(power), promoted);
  if (IsWhole(promoted) && power.integer < 0) {
    FailInvalid("exponent: expected at least 0 for integers, got " + std::to_string(power.integer));
  }
  CheckHolds(exponent, promoted);
  return PlanOperation(tensors, PowerOf(power), promoted);
}

// Some devices cast the tensor and the bounds to the type of the result first, and others the result.
Plan PlanClamp(const ClampArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument out{"out", given.out};
  if (given.clip_value_max == nullptr) CheckNotNull<OperatorError>(given.clip_value_min, "clipValueMin");
  CheckDataTypes({self, out}, FloatTypes({ACL_DOUBLE, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8}));
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors);
  if (self.tensor.empty()) return {};
  aclDataType promoted = self.tensor.data_type;
  for (const aclScalar* each : {given.clip_value_min, given.clip_value_max}) {
    if (each != nullptr) promoted = PromotedWithNumber(promoted, each->data_type);
  }
  CheckCast(promoted, out);
  const Number least = BoundOf("clipValueMin", given.clip_value_min, promoted, kLeast);
  const Number most = BoundOf("clipValueMax", given.clip_value_max, promoted, kLargest);
  // All is NaN then, as for PyTorch.
  if (std::isnan(least.real) || std::isnan(most.real)) {
    return PlanOperation(tensors, {Operation::kMultiply, {std::nan(""), 0}, {}, /*takes_number=*/true}, promoted);
  }
  return PlanOperation(tensors, {Operation::kClamp, least, most}, promoted);
}

Plan PlanGtScalar(const GtScalarArguments& given) {
  CheckProduct(kAllProducts);
  return CheckAndPlanComparison(given, Operation::kGreater);
}

Plan PlanGeScalar(const GeScalarArguments& given) {
  CheckProduct(kAllProducts);
  return CheckAndPlanComparison(given, Operation::kGreaterOrEqual);
}

Plan PlanLeScalar(const LeScalarArguments& given) {
  CheckProduct(kAllProducts);
  return CheckAndPlanComparison(given, Operation::kLessOrEqual);
}

Plan PlanEqScalar(const EqScalarArguments& given) {
  CheckProduct(kNot310P);
  return CheckAndPlanComparison(given, Operation::kEqual);
}

// Where CANN makes a tensor of the number first, it has another code for null pointers.
Plan PlanLtScalar(const LtScalarArguments& given) {
  CheckProduct(kNot310P);
  const aclnnStatus code = CurrentProduct() == Product::k950 ? ACLNN_ERR_PARAM_NULLPTR : ACLNN_ERR_INNER_NULLPTR;
  CheckNotNull<OperatorError>(given.other, "other", code);
  CheckNotNull<OperatorError>(given.self, "self", code);
  return CheckAndPlanComparison(given, Operation::kLess);
}

}  // namespace acl_host
