#include "families/elementwise/plan.h"

#include <optional>
#include <string>

#include "tensors/data_type.h"

namespace acl_host {
namespace {

bool IsComplex(aclDataType type) { return type == ACL_COMPLEX64 || type == ACL_COMPLEX128; }

bool IsDouble(aclDataType type) { return type == ACL_DOUBLE || type == ACL_COMPLEX128; }

bool IsHalf(aclDataType type) { return type == ACL_FLOAT16 || type == ACL_BF16; }

// The type that holds the numbers of both; CANN's own promotion for the types of these operators.
aclDataType Promoted(aclDataType one, aclDataType other) {
  if (one == other) return one;
  const bool is_double = IsDouble(one) || IsDouble(other);
  if (IsComplex(one) || IsComplex(other)) return is_double ? ACL_COMPLEX128 : ACL_COMPLEX64;
  return is_double ? ACL_DOUBLE : ACL_FLOAT;
}

void CheckTypes(const ElementwiseRules& rules, const ElementwiseTensors& tensors) {
  const auto& [grad_output, saved, gradient] = tensors;
  for (const Argument& each : {grad_output, saved, gradient}) CheckDataType(each, rules.types);
  if (rules.fit == Types::kEqual) {
    CheckSameDataType(saved, grad_output);
    CheckSameDataType(gradient, grad_output);
    return;
  }
  const aclDataType promoted = Promoted(grad_output.tensor.data_type, saved.tensor.data_type);
  const aclDataType result = gradient.tensor.data_type;
  if (rules.fit == Types::kPromoted ? result != promoted : IsComplex(promoted) && !IsComplex(result)) {
    FailInvalid(std::string(gradient.name) + ": expected a type for results of " + DataTypeName(promoted) + ", got " +
                DataTypeName(result));
  }
}

// The dims of two tensors after broadcasting, if there are any.
std::optional<Dims> BroadcastDims(const Dims& one, const Dims& other) {
  const Dims& shorter = one.size() < other.size() ? one : other;
  Dims dims = one.size() < other.size() ? other : one;
  const size_t added = dims.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& dim = dims[added + i];
    if (dim == 1) dim = shorter[i];
    if (dim != shorter[i] && shorter[i] != 1) return std::nullopt;
  }
  return dims;
}

void CheckShapes(const ElementwiseRules& rules, const ElementwiseTensors& tensors) {
  const auto& [grad_output, saved, gradient] = tensors;
  for (const Argument& each : {grad_output, saved, gradient}) {
    if (rules.limits_rank && each.tensor.rank() > 8) {
      FailInvalid(std::string(each.name) + ": expected a rank of at most 8, got shape " +
                  DimsText(each.tensor.view_dims));
    }
    CheckNoNegativeDim(each);
  }
  const Dims& dims = saved.tensor.view_dims;
  const Dims& grad_dims = grad_output.tensor.view_dims;
  if (!rules.broadcasts) {
    CheckSameShape(grad_output, saved);
    CheckSameShape(gradient, saved);
    return;
  }
  const std::optional<Dims> expected = BroadcastDims(dims, grad_dims);
  if (!expected) {
    FailInvalid(std::string(grad_output.name) + ": expected a shape that " + saved.name + " of shape " +
                DimsText(dims) + " can be broadcast with, got " + DimsText(grad_dims));
  }
  if (gradient.tensor.view_dims != *expected) {
    FailInvalid(std::string(gradient.name) + ": expected the shape of the inputs after broadcasting, " +
                DimsText(*expected) + ", got " + DimsText(gradient.tensor.view_dims));
  }
}

// A view that repeats the tensor along the axes that are broadcast: the plan makes a copy of it.
aclTensor Broadcast(const aclTensor& tensor, const Dims& dims) {
  aclTensor view = tensor;
  const size_t added = dims.size() - tensor.view_dims.size();
  view.strides.insert(view.strides.begin(), added, 0);
  view.view_dims = dims;
  for (size_t i = 0; i < tensor.view_dims.size(); ++i) {
    if (tensor.view_dims[i] != dims[added + i]) view.strides[added + i] = 0;
  }
  return view;
}

}  // namespace

void CheckElementwise(const ElementwiseRules& rules, const ElementwiseTensors& tensors) {
  CheckTypes(rules, tensors);
  CheckShapes(rules, tensors);
}

Plan MakeElementwisePlan(Function function, const ElementwiseTensors& tensors, float parameter) {
  const auto& [grad_output, saved, gradient] = tensors;
  Plan plan;
  if (gradient.tensor.empty()) return plan;
  for (const Argument& each : {grad_output, saved, gradient}) CheckAddressable(each);
  const Dims& dims = gradient.tensor.view_dims;
  const aclDataType promoted = Promoted(grad_output.tensor.data_type, saved.tensor.data_type);
  const Elementwise work{function,
                         grad_output.tensor.data_type,
                         saved.tensor.data_type,
                         gradient.tensor.data_type,
                         IsHalf(promoted) ? ACL_FLOAT : promoted,
                         ElementCount(dims),
                         parameter};
  plan.AddInput(Broadcast(grad_output.tensor, dims));
  plan.AddInput(Broadcast(saved.tensor, dims));
  plan.AddOutput(gradient.tensor);
  plan.PromiseTimeOfBytes();
  plan.SetCompute(
      [run = AtVectorLevel<ElementwiseBackward>(), work](const KernelArguments& launch) { run(work, launch); });
  return plan;
}

}  // namespace acl_host
