// aclnnUpsampleNearest2dBackward: its checks and its plan.

#include "computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

// Fails unless gradOutput and gradInput have the sizes that the two arrays give.
void CheckSizes(const Argument& grad_out, const IntArrayArgument& output_size, const IntArrayArgument& input_size,
                const Argument& grad_input) {
  const Dims& in = input_size.values;
  const Dims& out = output_size.values;
  // A device also takes NHWC, but some products then mistake the order of inputSize.
  CheckFormat(grad_input, ACL_FORMAT_NCHW);
  CheckRank(grad_input, {4});
  CheckSameLeadingDims(grad_input, grad_out, 2);
  for (const Dims& size : {Dims{in[2], in[3]}, out}) {
    if (size[0] <= 0 || size[1] <= 0) {
      FailInvalid("inputSize, outputSize: expected heights and widths above 0, got " + DimsText(in) + " and " +
                  DimsText(out));
    }
  }
  for (size_t axis = 0; axis < 2; ++axis) {
    CheckDim(grad_out, axis, "that of inputSize", in[axis]);
    CheckDim(grad_out, axis + 2, "that of outputSize", out[axis]);
    // Most devices do not compare these and write out of bounds.
    CheckDim(grad_input, axis + 2, "that of inputSize", in[axis + 2]);
  }
}

// The rule that a product follows: see NearestRule.
NearestRule RuleOf(Product product, const UpsampleNearest2dBackwardArguments& arguments) {
  if (!HasBf16(product)) return NearestRule::kRatio;
  if (product == Product::k950) return NearestRule::kReciprocal;
  return arguments.scales_h > 0 || arguments.scales_w > 0 ? NearestRule::kScale : NearestRule::kRatio;
}

}  // namespace

Plan PlanUpsampleNearest2dBackward(const UpsampleNearest2dBackwardArguments& arguments) {
  const Product product = CurrentProduct();
  CheckProduct(kAllProducts);
  const Argument grad_out{"gradOut", arguments.grad_out};
  const IntArrayArgument output_size{"outputSize", arguments.output_size};
  const IntArrayArgument input_size{"inputSize", arguments.input_size};
  const Argument grad_input{"gradInput", arguments.grad_input};
  CheckDataType(grad_out, FloatTypes());
  CheckSameDataType(grad_input, grad_out);
  CheckRank(grad_out, {4});
  CheckLength(output_size, {2});
  CheckLength(input_size, {4});
  CheckSizes(grad_out, output_size, input_size, grad_input);
  CheckNoNegativeDim(grad_out);

  if (grad_out.tensor.empty()) return {};
  Plan plan = PlanOf({grad_out}, {grad_input});
  const Dims& in = input_size.values;
  const Dims& out = output_size.values;
  const NearestRule rule = RuleOf(product, arguments);
  const Upsampling upsampling{in[0] * in[1],
                              {in[2], out[0], rule, static_cast<float>(arguments.scales_h)},
                              {in[3], out[1], rule, static_cast<float>(arguments.scales_w)}};
  plan.PromiseTimeOfBytes();
  plan.SetKernel<UpsampleNearest2dBackward>(upsampling, grad_out.tensor.data_type);
  return plan;
}

}  // namespace acl_host
