// The gradients of elementwise functions: their checks, in CANN's order and with CANN's codes, and their plans.
#include <optional>
#include <string>
#include <vector>

#include "families/elementwise/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "tensors/data_type.h"

namespace acl_host {
namespace {

// How the types of the tensors have to fit each other: all are equal; or those of the inputs are promoted, and the
// output is of the promoted type, or of any type that it can be cast to.
enum class Types { kEqual, kPromoted, kCast };

// The differences between the operators' checks.
struct ElementwiseRules {
  std::vector<aclDataType> types;
  Types fit = Types::kEqual;
  bool broadcasts = true;
  bool limits_rank = true;
};

struct ElementwiseTensors {
  Argument grad_output;
  Argument saved;
  Argument gradient;
};

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

void CheckShapes(const ElementwiseRules& rules, const ElementwiseTensors& tensors) {
  const auto& [grad_output, saved, gradient] = tensors;
  for (const Argument& each : {grad_output, saved, gradient}) {
    if (rules.limits_rank) CheckMostDims(each);
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
    FailShape(grad_output,
              "a shape that " + std::string(saved.name) + " of shape " + DimsText(dims) + " can be broadcast with");
  }
  CheckShape(gradient, "the shape of the inputs after broadcasting", *expected);
}

Plan MakeElementwisePlan(const ElementwiseRules& rules, const ElementwiseTensors& tensors, Function function,
                         float parameter = 0) {
  CheckTypes(rules, tensors);
  CheckShapes(rules, tensors);
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
  plan.SetKernel<ElementwiseBackward>(work);
  return plan;
}

}  // namespace

Plan PlanSiluBackward(const SiluBackwardArguments& given) {
  const Product product = CurrentProduct();
  CheckProduct(kNot310P);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"self", given.self}, {"gradInput", given.grad_input}};
  ElementwiseRules rules{FloatTypes()};
  rules.broadcasts = product == Product::k950;
  if (rules.broadcasts && tensors.gradient.tensor.data_type == ACL_FLOAT) rules.fit = Types::kCast;
  return MakeElementwisePlan(rules, tensors, Function::kSilu);
}

Plan PlanSigmoidBackward(const SigmoidBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"output", given.output}, {"gradInput", given.grad_input}};
  return MakeElementwisePlan({FloatTypes({ACL_DOUBLE, ACL_COMPLEX64, ACL_COMPLEX128}), Types::kCast}, tensors,
                             Function::kSigmoid);
}

Plan PlanTanhBackward(const TanhBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"output", given.output}, {"gradInput", given.grad_input}};
  return MakeElementwisePlan({FloatTypes({ACL_DOUBLE})}, tensors, Function::kTanh);
}

Plan PlanLeakyReluBackward(const LeakyReluBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const Argument grad_output{"gradOutput", given.grad_output};
  const Argument self{"self", given.self};
  const double slope = NumberOf(given.negative_slope, "negativeSlope");
  const ElementwiseTensors tensors{grad_output, self, {"out", given.out}};
  if (given.self_is_result && slope < 0) {
    FailInvalid("negativeSlope: expected at least 0 with selfIsResult, got " + std::to_string(slope));
  }
  return MakeElementwisePlan({FloatTypes({ACL_DOUBLE}), Types::kCast}, tensors, Function::kLeakyRelu,
                             static_cast<float>(slope));
}

Plan PlanHardswishBackward(const HardswishBackwardArguments& given) {
  CheckProduct(kNot310P);
  const ElementwiseTensors tensors{{"gradOutput", given.grad_output}, {"self", given.self}, {"out", given.out}};
  ElementwiseRules rules{FloatTypes()};
  rules.broadcasts = false;
  return MakeElementwisePlan(rules, tensors, Function::kHardswish);
}

Plan PlanThresholdBackward(const ThresholdBackwardArguments& given) {
  const Product product = CurrentProduct();
  CheckProduct(kAllProducts);
  const double threshold = NumberOf(given.threshold, "threshold");
  const Argument out{"out", given.out};
  const ElementwiseTensors tensors{{"gradOutput", given.grad_output}, {"self", given.self}, out};
  std::vector<aclDataType> types = FloatTypes({ACL_INT32, ACL_INT8, ACL_UINT8});
  if (product == Product::k950 && threshold == 0) types.push_back(ACL_INT64);
  return MakeElementwisePlan({types}, tensors, Function::kThreshold, static_cast<float>(threshold));
}

Plan PlanGeluBackward(const GeluBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"self", given.self}, {"gradInput", given.grad_input}};
  return MakeElementwisePlan({FloatTypes(), Types::kCast}, tensors, Function::kGeluTanh);
}

Plan PlanGeluBackwardV2(const GeluBackwardV2Arguments& given) {
  CheckProduct(kAllProducts);
  const Argument grad_output{"gradOutput", given.grad_output};
  const Argument self{"self", given.self};
  const std::string approximate = &Required<OperatorError>(given.approximate, "approximate");
  const ElementwiseTensors tensors{grad_output, self, {"gradInput", given.grad_input}};
  if (approximate != "none" && approximate != "tanh") {
    FailInvalid("approximate: expected none or tanh, got " + approximate);
  }
  return MakeElementwisePlan({FloatTypes(), Types::kPromoted, /*broadcasts=*/true, /*limits_rank=*/false}, tensors,
                             approximate == "none" ? Function::kGelu : Function::kGeluTanh);
}

}  // namespace acl_host
