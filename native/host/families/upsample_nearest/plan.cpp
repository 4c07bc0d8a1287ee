// aclnnUpsampleNearest2dV2 and its gradient: their checks, in CANN's order, and their plans.

#include "computation.h"
#include "forward.h"
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

// The axis of a forward call on a product. Devices with a kernel of their own for scales call it if both are given;
// some ignore them.
NearestAxis AxisOf(Product product, int64_t size, int64_t upsampled, float scale, bool both_scales, bool is_small) {
  const float ratio = static_cast<float>(size) / static_cast<float>(upsampled);
  if (product == Product::k950) return {size, upsampled, scale > 0 ? 1.0F / scale : ratio};
  if (product == Product::k910A || !both_scales || size == upsampled) return {size, upsampled, ratio};
  if (is_small && 2 * size == upsampled) return {size, upsampled, 0.5F};
  return {size, upsampled, static_cast<float>(1.0 / static_cast<double>(scale))};
}

}  // namespace

Plan PlanUpsampleNearest2dV2(const UpsampleNearest2dV2Arguments& arguments) {
  const Product product = CurrentProduct();
  CheckProduct(kAllProducts);
  const Argument self{"self", arguments.self};
  const Argument out{"out", arguments.out};
  // Nothing is checked then.
  if (self.tensor.empty() || out.tensor.empty()) return {};
  const IntArrayArgument output_size{"outputSize", arguments.output_size};
  CheckDataType(self, FloatTypes({ACL_DOUBLE, ACL_UINT8}));
  CheckSameDataType(out, self);
  CheckLength(output_size, {2});
  CheckRank(self, {4});
  const Dims& to = output_size.values;
  if (to[0] == 0 || to[1] == 0) FailInvalid("outputSize: expected sizes above 0, got " + DimsText(to));
  // A device also takes NHWC, which this library does not compute.
  CheckFormat(self, ACL_FORMAT_NCHW);
  CheckFormat(out, ACL_FORMAT_NCHW);
  CheckRank(out, {4});
  CheckSameLeadingDims(out, self, 2);
  for (size_t axis = 0; axis < 2; ++axis) CheckDim(out, axis + 2, "that of outputSize", to[axis]);
  for (const Argument& argument : {self, out}) CheckNoNegativeDim(argument);

  Plan plan = PlanOf({self}, {out});
  const Dims& from = self.tensor.view_dims;
  const bool both_scales = arguments.scales_h > 0 && arguments.scales_w > 0;
  constexpr int64_t kSmall = 128;
  const bool is_small = to[0] <= kSmall && to[1] <= kSmall - to[0];
  const NearestCopies copies{from[0] * from[1],
                             AxisOf(product, from[2], to[0], arguments.scales_h, both_scales, is_small),
                             AxisOf(product, from[3], to[1], arguments.scales_w, both_scales, is_small)};
  plan.PromiseTimeOfBytes();
  plan.SetKernel<UpsampleNearest2d>(copies, self.tensor.data_type);
  return plan;
}

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
