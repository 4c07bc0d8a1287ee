// Functions of one tensor: their checks, in CANN's order and with CANN's codes, and their plans.
#include <vector>

#include "families/elementwise/operation_rules.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kWithBf16 = {Product::k910B, Product::k910_93, Product::k950};

// The result of these is cast.
Plan CheckAndPlanCast(const AbsArguments& given, Operation operation, const std::vector<aclDataType>& types) {
  const Argument self{"self", given.self};
  const Argument out{"out", given.out};
  CheckDataType(self, types);
  const aclDataType type = self.tensor.data_type;
  const aclDataType promoted = operation == Operation::kNegative ? type : RealOf(type);
  CheckCast(promoted, out);
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors);
  const bool is_long_root = operation == Operation::kSqrt && type == ACL_INT64;
  return PlanOperation(tensors, {operation}, is_long_root ? ACL_DOUBLE : promoted);
}

// Of integers CANN computes these in the type of the result.
Plan CheckAndPlanReal(const AbsArguments& given, Operation operation) {
  const Argument self{"self", given.self};
  const Argument out{"out", given.out};
  CheckDataType(self, NumberTypes());
  CheckDataType(out, RealTypes());
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors);
  const aclDataType type = self.tensor.data_type;
  return PlanOperation(tensors, {operation}, IsWhole(type) ? out.tensor.data_type : type);
}

// Those of one type.
Plan CheckAndPlanAlike(const Argument& self, const Argument& out, Operation operation,
                       const std::vector<aclDataType>& types, bool limits_rank) {
  CheckDataType(self, types);
  CheckSameDataType(out, self);
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors, limits_rank);
  return PlanOperation(tensors, {operation}, self.tensor.data_type);
}

void CheckPlainFormat(const Argument& self, const Argument& out) {
  CheckSameFormat(out, self);
  CheckNotPrivateFormat(self);
}

}  // namespace

Plan PlanNeg(const NegArguments& given) {
  CheckProduct(kNot310P);
  return CheckAndPlanCast(given, Operation::kNegative, FloatTypes({ACL_DOUBLE, ACL_INT8, ACL_INT32, ACL_INT64}));
}

Plan PlanExp(const ExpArguments& given) {
  CheckProduct(kWithBf16);
  return CheckAndPlanCast(given, Operation::kExp, FloatTypes({ACL_DOUBLE, ACL_BOOL, ACL_INT64}));
}

Plan PlanLog(const LogArguments& given) {
  CheckProduct(kWithBf16);
  return CheckAndPlanCast(given, Operation::kLog, NumberTypes());
}

// Of INT64 it is computed in DOUBLE.
Plan PlanSqrt(const SqrtArguments& given) {
  CheckProduct(kNot310P);
  return CheckAndPlanCast(given, Operation::kSqrt, NumberTypes());
}

Plan PlanRsqrt(const RsqrtArguments& given) {
  CheckProduct(kAllProducts);
  return CheckAndPlanReal(given, Operation::kRsqrt);
}

Plan PlanSigmoid(const SigmoidArguments& given) {
  CheckProduct(kAllProducts);
  return CheckAndPlanReal(given, Operation::kSigmoid);
}

Plan PlanReciprocal(const ReciprocalArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument out{"out", given.out};
  CheckDataType(self, NumberTypes());
  CheckDataType(out, RealTypes());
  CheckSameFormat(out, self);
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors);
  return PlanOperation(tensors, {Operation::kReciprocal}, RealOf(self.tensor.data_type));
}

Plan PlanTanh(const TanhArguments& given) {
  CheckProduct(kNot310P);
  const Argument self{"self", given.self};
  const Argument out{"out", given.out};
  CheckDataType(self, FloatTypes({ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8, ACL_BOOL}));
  CheckDataType(out, FloatTypes());
  CheckPlainFormat(self, out);
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors);
  return PlanOperation(tensors, {Operation::kTanh}, RealOf(self.tensor.data_type));
}

Plan PlanAbs(const AbsArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument out{"out", given.out};
  CheckDataType(self, NumberTypes());
  CheckSameDataType(out, self);
  CheckPlainFormat(self, out);
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors);
  return PlanOperation(tensors, {Operation::kAbsolute}, self.tensor.data_type);
}

Plan PlanRelu(const ReluArguments& given) {
  CheckProduct(kNot310P);
  const Argument self{"self", given.self};
  const Argument out{"out", given.out};
  return CheckAndPlanAlike(self, out, Operation::kRelu, FloatTypes({ACL_INT8, ACL_INT32, ACL_INT64, ACL_UINT8}),
                           /*limits_rank=*/true);
}

Plan PlanSilu(const SiluArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument out{"out", given.out};
  return CheckAndPlanAlike(self, out, Operation::kSilu, FloatTypes(),
                           /*limits_rank=*/false);
}

// Any other value stands for the exact function.
Plan PlanGeluV2(const GeluV2Arguments& given) {
  CheckProduct(kAllProducts);
  const Argument x{"x", given.x};
  const Argument y{"y", given.y};
  return CheckAndPlanAlike(x, y, given.approximate == 1 ? Operation::kGeluTanh : Operation::kGelu, FloatTypes(),
                           /*limits_rank=*/false);
}

Plan PlanHardswish(const HardswishArguments& given) {
  CheckProduct(kNot310P);
  const Argument self{"self", given.self};
  const Argument out{"out", given.out};
  CheckDataTypes({self, out}, FloatTypes());
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors, /*limits_rank=*/false);
  return PlanOperation(tensors, {Operation::kHardswish}, self.tensor.data_type);
}

Plan PlanLeakyRelu(const LeakyReluArguments& given) {
  CheckProduct(kNot310P);
  const Argument self{"self", given.self};
  const NumberArgument slope{"negativeSlope", given.negative_slope};
  const Argument out{"out", given.out};
  CheckDataType(self, RealTypes());
  CheckCast(self.tensor.data_type, out);
  const ElementwiseTensors tensors{{self}, out};
  CheckUnaryShape(tensors);
  return PlanOperation(tensors, {Operation::kLeakyRelu, slope.number()}, self.tensor.data_type);
}

}  // namespace acl_host
