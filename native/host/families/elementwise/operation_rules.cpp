#include "families/elementwise/operation_rules.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "tensors/data_type.h"

namespace acl_host {

std::vector<aclDataType> RealTypes() { return FloatTypes({ACL_DOUBLE}); }

std::vector<aclDataType> NumberTypes() {
  return FloatTypes({ACL_DOUBLE, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8, ACL_BOOL});
}

void CheckDataTypes(std::initializer_list<Argument> arguments, const std::vector<aclDataType>& types) {
  for (const Argument& each : arguments) CheckDataType(each, types);
}

void CheckNumberType(const NumberArgument& argument, const std::vector<aclDataType>& types) {
  if (std::find(types.begin(), types.end(), argument.type()) != types.end()) return;
  FailInvalid(std::string(argument.name) + ": expected a real number, got " + DataTypeName(argument.type()));
}

void CheckCast(aclDataType promoted, const Argument& result) {
  CheckDataType(result, NumberTypes());
  if (CanCast(promoted, result.tensor.data_type)) return;
  FailInvalid(std::string(result.name) + ": expected a type for results of " + DataTypeName(promoted) + ", got " +
              DataTypeName(result.tensor.data_type));
}

void CheckCast(const NumberArgument& number, aclDataType promoted) {
  if (promoted == ACL_BOOL ? IsWhole(number.type()) : CanCast(number.type(), promoted)) return;
  FailInvalid(std::string(number.name) + ": expected a number for " + DataTypeName(promoted) + ", got " +
              DataTypeName(number.type()));
}

void CheckBroadcast(const ElementwiseTensors& tensors) {
  Dims dims;
  for (const OptionalArgument& each : tensors.inputs) {
    CheckMostDims(*each);
    CheckNoNegativeDim(*each);
  }
  for (const OptionalArgument& each : tensors.inputs) {
    std::optional<Dims> fitting = BroadcastDims(dims, each->tensor.view_dims);
    if (!fitting) FailShape(*each, "a shape that can be broadcast with " + DimsText(dims));
    dims = *std::move(fitting);
  }
  CheckShape(tensors.result, "the shape of the inputs after broadcasting", dims);
}

void CheckUnaryShape(const ElementwiseTensors& tensors, bool limits_rank) {
  const Argument& self = *tensors.inputs.front();
  if (limits_rank) CheckMostDims(self);
  CheckNoNegativeDim(self);
  CheckSameShape(tensors.result, self);
}

aclDataType RealOf(aclDataType type) { return IsWhole(type) ? ACL_FLOAT : type; }

Plan PlanComparison(const ElementwiseTensors& tensors, const OperationOf& operation, aclDataType promoted) {
  return PlanOperation(tensors, operation, IsWhole(promoted) ? ACL_INT64 : promoted);
}

Plan PlanOperation(const ElementwiseTensors& tensors, const OperationOf& operation, aclDataType promoted) {
  const aclDataType real = IsHalf(promoted) ? ACL_FLOAT : promoted;
  Plan plan;
  const std::optional<Elementwise> work = AddOperands(plan, tensors, promoted, IsWhole(promoted) ? ACL_INT64 : real);
  if (work) plan.SetKernel<ElementwiseForward>(*work, operation);
  return plan;
}

}  // namespace acl_host
