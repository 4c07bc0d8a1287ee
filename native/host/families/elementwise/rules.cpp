#include "families/elementwise/rules.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "families/elementwise/promotion.h"
#include "tensors/data_type.h"

namespace acl_host {
namespace {

// The type of the numbers that operators compute with.
aclDataType Widened(aclDataType type) { return IsHalf(type) ? ACL_FLOAT : type; }

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
  if (rules.types_fit == Types::kPromoted ? type != promoted : !CanCast(promoted, type)) {
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

// Axes of one step are merged.
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

std::optional<Elementwise> AddOperands(Plan& plan, const ElementwiseTensors& tensors, aclDataType promoted,
                                       aclDataType computed) {
  const Argument& result = tensors.result;
  const std::vector<Argument> all = tensors.all();
  if (std::any_of(all.begin(), all.end(), [](const Argument& each) { return each.tensor.empty(); })) {
    if (!result.tensor.empty()) FailShape(result, "an empty shape, as that of an input");
    return std::nullopt;
  }
  for (const Argument& each : all) CheckAddressable(each);
  const aclDataType type = result.tensor.data_type;
  Elementwise work{{}, type, promoted, computed, ElementCount(result.tensor.view_dims), false};
  work.is_alike = Widened(type) == computed;
  for (const OptionalArgument& each : tensors.inputs) {
    if (!each) {
      work.inputs.push_back({type, /*is_given=*/false});
      continue;
    }
    work.inputs.push_back(InputOf(*each, result.tensor.view_dims));
    if (IsHalf(promoted) && IsWhole(each->tensor.data_type)) work.inputs.back().rounded_to = promoted;
    work.is_alike = work.is_alike && each->tensor.data_type == type;
    plan.AddStridedInput(each->tensor);
  }
  plan.AddOutput(result.tensor);
  plan.PromiseTimeOfBytes();
  return work;
}

Plan PlanElementwise(const ElementwiseTensors& tensors, Function function, Parameters parameters,
                     std::optional<aclDataType> computed) {
  const aclDataType promoted = computed.value_or(PromotedType(tensors));
  Plan plan;
  const std::optional<Elementwise> work = AddOperands(plan, tensors, promoted, Widened(promoted));
  if (work) plan.SetKernel<ElementwiseBackward>(*work, function, parameters);
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
