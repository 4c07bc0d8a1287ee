// The operators that are gradients of elementwise functions: their checks, in CANN's order and with CANN's codes.
#include <initializer_list>
#include <string>
#include <vector>

#include "families/elementwise/plan.h"
#include "operator_plans.h"
#include "plan/scalars.h"

namespace acl_host {
namespace {

constexpr std::initializer_list<const char*> kAllProducts = {"910A", "910B", "910_93", "310P", "950"};
constexpr std::initializer_list<const char*> kNot310P = {"910A", "910B", "910_93", "950"};

std::vector<aclDataType> FloatTypesAnd(std::initializer_list<aclDataType> more) {
  std::vector<aclDataType> types = FloatTypes(CurrentProduct());
  types.insert(types.end(), more);
  return types;
}

}  // namespace

Plan PlanSiluBackward(const SiluBackwardArguments& given) {
  const Product& product = CurrentProduct();
  CheckProduct(product, kNot310P);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"self", given.self}, {"gradInput", given.grad_input}};
  ElementwiseRules rules{FloatTypes(product)};
  rules.broadcasts = std::string(product.name) == "950";
  if (rules.broadcasts && tensors.gradient.tensor.data_type == ACL_FLOAT) rules.fit = Types::kCast;
  CheckElementwise(rules, tensors);
  return MakeElementwisePlan(Function::kSilu, tensors);
}

Plan PlanSigmoidBackward(const SigmoidBackwardArguments& given) {
  CheckProduct(CurrentProduct(), kAllProducts);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"output", given.output}, {"gradInput", given.grad_input}};
  CheckElementwise({FloatTypesAnd({ACL_DOUBLE, ACL_COMPLEX64, ACL_COMPLEX128}), Types::kCast}, tensors);
  return MakeElementwisePlan(Function::kSigmoid, tensors);
}

Plan PlanTanhBackward(const TanhBackwardArguments& given) {
  CheckProduct(CurrentProduct(), kAllProducts);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"output", given.output}, {"gradInput", given.grad_input}};
  CheckElementwise({FloatTypesAnd({ACL_DOUBLE})}, tensors);
  return MakeElementwisePlan(Function::kTanh, tensors);
}

Plan PlanLeakyReluBackward(const LeakyReluBackwardArguments& given) {
  CheckProduct(CurrentProduct(), kAllProducts);
  const Argument grad_output{"gradOutput", given.grad_output};
  const Argument self{"self", given.self};
  const double slope = NumberOf(given.negative_slope, "negativeSlope");
  const ElementwiseTensors tensors{grad_output, self, {"out", given.out}};
  CheckElementwise({FloatTypesAnd({ACL_DOUBLE}), Types::kCast}, tensors);
  if (given.self_is_result && slope < 0) {
    FailInvalid("negativeSlope: expected at least 0 with selfIsResult, got " + std::to_string(slope));
  }
  return MakeElementwisePlan(Function::kLeakyRelu, tensors, static_cast<float>(slope));
}

Plan PlanHardswishBackward(const HardswishBackwardArguments& given) {
  CheckProduct(CurrentProduct(), kNot310P);
  const ElementwiseTensors tensors{{"gradOutput", given.grad_output}, {"self", given.self}, {"out", given.out}};
  ElementwiseRules rules{FloatTypesAnd({})};
  rules.broadcasts = false;
  CheckElementwise(rules, tensors);
  return MakeElementwisePlan(Function::kHardswish, tensors);
}

Plan PlanThresholdBackward(const ThresholdBackwardArguments& given) {
  const Product& product = CurrentProduct();
  CheckProduct(product, kAllProducts);
  const double threshold = NumberOf(given.threshold, "threshold");
  const Argument out{"out", given.out};
  const ElementwiseTensors tensors{{"gradOutput", given.grad_output}, {"self", given.self}, out};
  std::vector<aclDataType> types = FloatTypesAnd({ACL_INT32, ACL_INT8, ACL_UINT8});
  if (std::string(product.name) == "950" && threshold == 0) types.push_back(ACL_INT64);
  CheckElementwise({types}, tensors);
  return MakeElementwisePlan(Function::kThreshold, tensors, static_cast<float>(threshold));
}

Plan PlanGeluBackward(const GeluBackwardArguments& given) {
  CheckProduct(CurrentProduct(), kAllProducts);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"self", given.self}, {"gradInput", given.grad_input}};
  CheckElementwise({FloatTypesAnd({}), Types::kCast}, tensors);
  return MakeElementwisePlan(Function::kGeluTanh, tensors);
}

Plan PlanGeluBackwardV2(const GeluBackwardV2Arguments& given) {
  CheckProduct(CurrentProduct(), kAllProducts);
  const Argument grad_output{"gradOutput", given.grad_output};
  const Argument self{"self", given.self};
  const std::string approximate = &Required<OperatorError>(given.approximate, "approximate");
  const ElementwiseTensors tensors{grad_output, self, {"gradInput", given.grad_input}};
  CheckElementwise({FloatTypesAnd({}), Types::kPromoted, true, false}, tensors);
  if (approximate == "none") return MakeElementwisePlan(Function::kGelu, tensors);
  if (approximate == "tanh") return MakeElementwisePlan(Function::kGeluTanh, tensors);
  FailInvalid("approximate: expected none or tanh, got " + approximate);
}

}  // namespace acl_host
