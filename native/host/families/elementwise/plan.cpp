// The gradients of activations: their checks, in CANN's order and with CANN's codes, and their plans.
#include <string>
#include <vector>

#include "families/elementwise/rules.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

// Hardshrink of a negative bound is 0 at 0 on devices, and not for PyTorch.
Plan CheckAndPlanShrink(const ElementwiseRules& rules, const ElementwiseTensors& tensors, const aclScalar* scalar,
                        const char* name) {
  const double bound = NumberOf(scalar, name);
  CheckTypes(rules, tensors);
  CheckRanks(rules, tensors);
  CheckShapes(rules, tensors);
  if (!(bound >= 0)) FailInvalid(std::string(name) + ": expected at least 0, got " + std::to_string(bound));
  return PlanElementwise(tensors, Function::kShrink, {static_cast<float>(bound)});
}

}  // namespace

Plan PlanSiluBackward(const SiluBackwardArguments& given) {
  const Product product = CurrentProduct();
  CheckProduct(kNot310P);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"self", given.self}, {"gradInput", given.grad_input}};
  ElementwiseRules rules{FloatTypes()};
  if (product != Product::k950) {
    rules.shapes_fit = Shapes::kEqual;
  } else if (tensors.result.tensor.data_type == ACL_FLOAT) {
    rules.types_fit = Types::kCast;
  }
  return CheckAndPlan(rules, tensors, Function::kSilu);
}

Plan PlanSigmoidBackward(const SigmoidBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"output", given.output}, {"gradInput", given.grad_input}};
  return CheckAndPlan({FloatTypes({ACL_DOUBLE, ACL_COMPLEX64, ACL_COMPLEX128}), Types::kCast}, tensors,
                      Function::kSigmoid);
}

Plan PlanTanhBackward(const TanhBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"output", given.output}, {"gradInput", given.grad_input}};
  return CheckAndPlan({FloatTypes({ACL_DOUBLE})}, tensors, Function::kTanh);
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
  return CheckAndPlan({FloatTypes({ACL_DOUBLE}), Types::kCast}, tensors, Function::kLeakyRelu,
                      {static_cast<float>(slope)});
}

Plan PlanHardswishBackward(const HardswishBackwardArguments& given) {
  CheckProduct(kNot310P);
  const ElementwiseTensors tensors{{"gradOutput", given.grad_output}, {"self", given.self}, {"out", given.out}};
  return CheckAndPlan({FloatTypes(), Types::kEqual, Shapes::kEqual}, tensors, Function::kHardswish);
}

Plan PlanThresholdBackward(const ThresholdBackwardArguments& given) {
  const Product product = CurrentProduct();
  CheckProduct(kAllProducts);
  const double threshold = NumberOf(given.threshold, "threshold");
  const Argument out{"out", given.out};
  const ElementwiseTensors tensors{{"gradOutput", given.grad_output}, {"self", given.self}, out};
  std::vector<aclDataType> types = FloatTypes({ACL_INT32, ACL_INT8, ACL_UINT8});
  if (product == Product::k950 && threshold == 0) types.push_back(ACL_INT64);
  return CheckAndPlan({types}, tensors, Function::kThreshold, {static_cast<float>(threshold)});
}

Plan PlanGeluBackward(const GeluBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"self", given.self}, {"gradInput", given.grad_input}};
  return CheckAndPlan({FloatTypes(), Types::kCast}, tensors, Function::kGeluTanh);
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
  return CheckAndPlan({FloatTypes(), Types::kPromoted, Shapes::kBroadcast, /*limits_rank=*/false}, tensors,
                      approximate == "none" ? Function::kGelu : Function::kGeluTanh);
}

Plan PlanEluBackward(const EluBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"selfOrResult", given.self_or_result}, {"gradInput", given.grad_input}};
  const double alpha = NumberOf(given.alpha, "alpha");
  const double scale = NumberOf(given.scale, "scale");
  const double input_scale = NumberOf(given.input_scale, "inputScale");
  const ElementwiseRules rules{FloatTypes(), Types::kEqualInputs, Shapes::kEqual};
  CheckTypes(rules, tensors);
  CheckRanks(rules, tensors);
  CheckShapes(rules, tensors);
  if (given.is_result && alpha < 0) {
    FailInvalid("alpha: expected at least 0 with isResult, got " + std::to_string(alpha));
  }
  return PlanElementwise(
      tensors, given.is_result ? Function::kEluOfResult : Function::kElu,
      {static_cast<float>(alpha * scale), static_cast<float>(scale), static_cast<float>(input_scale)});
}

// DOUBLE and integers are computed in FLOAT. CANN does not check the scalars for null.
Plan PlanSoftplusBackward(const SoftplusBackwardArguments& given) {
  CheckProduct(kNot310P);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"self", given.self}, {"gradInput", given.grad_input}};
  const std::vector<aclDataType> floats = FloatTypes({ACL_DOUBLE});
  CheckDataType(tensors.grad_output(), floats);
  CheckDataType(tensors.saved(),
                FloatTypes({ACL_DOUBLE, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8, ACL_BOOL}));
  CheckDataType(tensors.result, floats);
  const ElementwiseRules rules{floats, Types::kCast, Shapes::kEqual};
  CheckRanks(rules, tensors);
  CheckShapes(rules, tensors);
  const Parameters parameters{static_cast<float>(NumberOf(given.beta, "beta")),
                              static_cast<float>(NumberOf(given.threshold, "threshold"))};
  return PlanElementwise(tensors, Function::kSoftplus, parameters, ACL_FLOAT);
}

// CANN does not compare the result with the inputs, nor the bounds.
Plan PlanHardtanhBackward(const HardtanhBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const ElementwiseTensors tensors{{"gradOutput", given.grad_output}, self, {"out", given.out}};
  const double least = NumberOf(given.min, "min");
  const double most = NumberOf(given.max, "max");
  const ElementwiseRules rules{FloatTypes(), Types::kEqual, Shapes::kEqual};
  CheckTypes(rules, tensors);
  CheckRanks(rules, tensors);
  CheckShapes(rules, tensors);
  if (least > most) {
    FailInvalid("min: expected at most max, " + std::to_string(most) + ", got " + std::to_string(least));
  }
  return PlanElementwise(tensors, Function::kHardtanh, {static_cast<float>(least), static_cast<float>(most)});
}

Plan PlanHardsigmoidBackward(const HardsigmoidBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const ElementwiseTensors tensors{{"gradOutput", given.grad_output}, {"self", given.self}, {"out", given.out}};
  return CheckAndPlan({FloatTypes(), Types::kCast, Shapes::kEqual}, tensors, Function::kHardsigmoid);
}

Plan PlanMishBackward(const MishBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"self", given.self}, {"gradInput", given.grad_input}};
  return CheckAndPlan({FloatTypes(), Types::kCast}, tensors, Function::kMish);
}

// Nothing of the buffer matters but that it is there.
Plan PlanLogSigmoidBackward(const LogSigmoidBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const Argument grad_output{"gradOutput", given.grad_output};
  const Argument self{"self", given.self};
  CheckNotNull<OperatorError>(given.buffer, "buffer");
  const ElementwiseTensors tensors{grad_output, self, {"gradInput", given.grad_input}};
  return CheckAndPlan({FloatTypes(), Types::kEqual, Shapes::kEqual, /*limits_rank=*/false}, tensors,
                      Function::kLogSigmoid);
}

Plan PlanHardshrinkBackward(const HardshrinkBackwardArguments& given) {
  CheckProduct(kNot310P);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"self", given.self}, {"gradInput", given.grad_input}};
  return CheckAndPlanShrink({FloatTypes(), Types::kCast}, tensors, given.lambd, "lambd");
}

// Of mixed types CANN makes FLOAT, and fails if the result is of another type.
Plan PlanSoftshrinkBackward(const SoftshrinkBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"self", given.self}, {"gradInput", given.grad_input}};
  return CheckAndPlanShrink({FloatTypes()}, tensors, given.lambda, "lambda");
}

}  // namespace acl_host
