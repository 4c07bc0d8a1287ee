#include "families/elementwise/rules.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "tensors/data_type.h"

namespace acl_host {
namespace {

bool IsComplex(aclDataType type) { return type == ACL_COMPLEX64 || type == ACL_COMPLEX128; }

bool IsDouble(aclDataType type) { return type == ACL_DOUBLE || type == ACL_COMPLEX128; }

bool IsHalf(aclDataType type) { return type == ACL_FLOAT16 || type == ACL_BF16; }

aclDataType Promoted(aclDataType one, aclDataType other) {
  if (one == other) return one;
  const bool is_double = IsDouble(one) || IsDouble(other);
  if (IsComplex(one) || IsComplex(other)) return is_double ? ACL_COMPLEX128 : ACL_COMPLEX64;
  return is_double ? ACL_DOUBLE : ACL_FLOAT;
}

// As it lies beside a contiguous result of these dims: axes of one step are merged.
ElementwiseInput InputOf(const Argument& argument, const Dims& dims) {
  ElementwiseInput input{argument.tensor.data_type};
  const aclTensor view = Broadcast(argument.tensor, dims);
  if (view.contiguous()) return input;
  int64_t inner = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    const int64_t dim = dims[axis];
    const int64_t stride = view.strides[axis];
    if (dim == 1) continue;
    int64_t reach = 0;
    const bool is_merged = !input.dims.empty() &&
                           !__builtin_mul_overflow(input.dims.back(), input.strides.back(), &reach) && stride == reach;
    if (is_merged) {
      input.dims.back() *= dim;
    } else {
      input.dims.push_back(dim);
      input.strides.push_back(stride);
    }
    inner *= dim;
    if (stride != 0) input.period = inner;
  }
  input.period = std::max<int64_t>(input.period, 1);
  std::reverse(input.dims.begin(), input.dims.end());
  std::reverse(input.strides.begin(), input.strides.end());
  return input;
}

}  // namespace

std::vector<Argument> ElementwiseTensors::all() const {
  std::vector<Argument> given;
  for (const OptionalArgument& each : inputs) {
    if (each) given.push_back(*each);
  }
  given.push_back(result);
  return given;
}

aclDataType PromotedType(const ElementwiseTensors& tensors) {
  aclDataType type = tensors.grad_output().tensor.data_type;
  for (const OptionalArgument& each : tensors.inputs) {
    if (each) type = Promoted(type, each->tensor.data_type);
  }
  return type;
}

void CheckTypes(const ElementwiseRules& rules, const ElementwiseTensors& tensors) {
  const Argument& result = tensors.result;
  const std::vector<Argument> all = tensors.all();
  for (const Argument& each : all) CheckDataType(each, rules.types);
  if (rules.types_fit == Types::kEqual || rules.types_fit == Types::kEqualInputs) {
    const size_t equal = rules.types_fit == Types::kEqual ? all.size() : all.size() - 1;
    for (size_t i = 1; i < equal; ++i) CheckSameDataType(all[i], tensors.grad_output());
    return;
  }
  const aclDataType promoted = PromotedType(tensors);
  const aclDataType type = result.tensor.data_type;
  if (rules.types_fit == Types::kPromoted ? type != promoted : IsComplex(promoted) && !IsComplex(type)) {
    FailInvalid(std::string(result.name) + ": expected a type for results of " + DataTypeName(promoted) + ", got " +
                DataTypeName(type));
  }
}

void CheckRanks(const ElementwiseRules& rules, const ElementwiseTensors& tensors) {
  for (const Argument& each : tensors.all()) {
    if (rules.limits_rank) CheckMostDims(each);
    CheckNoNegativeDim(each);
  }
}

void CheckShapes(const ElementwiseRules& rules, const ElementwiseTensors& tensors) {
  const Argument& saved = tensors.saved();
  if (rules.shapes_fit == Shapes::kEqual) {
    for (const Argument& each : tensors.all()) CheckSameShape(each, saved);
    return;
  }
  Dims dims = saved.tensor.view_dims;
  for (const OptionalArgument& each : tensors.inputs) {
    if (!each) continue;
    std::optional<Dims> fitting = BroadcastDims(dims, each->tensor.view_dims);
    if (!fitting || (rules.shapes_fit == Shapes::kToSelf && *fitting != dims)) {
      FailShape(*each, "a shape that can be broadcast " +
                           std::string(rules.shapes_fit == Shapes::kToSelf ? "to " : "with ") + DimsText(dims));
    }
    dims = *std::move(fitting);
  }
  CheckShape(tensors.result, "the shape of the inputs after broadcasting", dims);
}

Plan PlanElementwise(const ElementwiseTensors& tensors, Function function, Parameters parameters,
                     std::optional<aclDataType> computed) {
  const Argument& result = tensors.result;
  const std::vector<Argument> all = tensors.all();
  Plan plan;
  if (std::any_of(all.begin(), all.end(), [](const Argument& each) { return each.tensor.empty(); })) {
    if (!result.tensor.empty()) FailShape(result, "an empty shape, as that of an input");
    return plan;
  }
  for (const Argument& each : all) CheckAddressable(each);
  const aclDataType type = result.tensor.data_type;
  const auto widened = [](aclDataType each) { return IsHalf(each) ? ACL_FLOAT : each; };
  Elementwise work{function, {}, type, computed.value_or(widened(PromotedType(tensors))), 0, false, parameters};
  work.count = ElementCount(result.tensor.view_dims);
  work.is_alike = widened(type) == work.computed;
  for (const OptionalArgument& each : tensors.inputs) {
    if (!each) {
      work.inputs.push_back({type, /*is_given=*/false});
      continue;
    }
    work.inputs.push_back(InputOf(*each, result.tensor.view_dims));
    work.is_alike = work.is_alike && each->tensor.data_type == type;
    plan.AddStridedInput(each->tensor);
  }
  plan.AddOutput(result.tensor);
  plan.PromiseTimeOfBytes();
  plan.SetKernel<ElementwiseBackward>(work);
  return plan;
}

Plan CheckAndPlan(const ElementwiseRules& rules, const ElementwiseTensors& tensors, Function function,
                  Parameters parameters) {
  CheckTypes(rules, tensors);
  CheckRanks(rules, tensors);
  CheckShapes(rules, tensors);
  return PlanElementwise(tensors, function, parameters);
}

}  // namespace acl_host
