// aclnnUpsampleBilinear2d and its gradient: their checks, in CANN's order, and their plans.
#include <algorithm>
#include <cstdint>
#include <string>

#include "computation.h"
#include "errors/pointers.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

// Fails unless gradOut and out have the sizes that the two arrays give.
void CheckSizes(const Argument& grad_out, const Dims& output_size, const Dims& input_size, const Argument& out) {
  const auto is_positive = [](int64_t size) { return size > 0; };
  if (!std::all_of(output_size.begin(), output_size.end(), is_positive) || input_size[2] <= 0 || input_size[3] <= 0) {
    FailInvalid("inputSize, outputSize: expected heights and widths above 0, got " + DimsText(input_size) + " and " +
                DimsText(output_size));
  }
  CheckShape(grad_out, "the sizes of inputSize and outputSize",
             {input_size[0], input_size[1], output_size[0], output_size[1]});
  // Devices compare N and C, and most do not compare H and W.
  CheckShape(out, "inputSize", input_size);
}

// Devices differ in how they use a scale that is not of the sizes.
LinearAxis AxisOf(const char* name, int64_t size, int64_t upsampled, bool aligns_corners, double scale) {
  const auto of_sizes = static_cast<float>(static_cast<double>(size) / static_cast<double>(upsampled));
  if (scale != 0 && static_cast<float>(1.0 / scale) != of_sizes) {
    FailInvalid(std::string(name) + ": expected 0 or " + std::to_string(upsampled) + " / " + std::to_string(size) +
                ", got " + std::to_string(scale));
  }
  LinearAxis axis{size, upsampled, aligns_corners, of_sizes};
  if (aligns_corners) {
    axis.ratio =
        upsampled > 1 ? static_cast<float>(static_cast<double>(size - 1) / static_cast<double>(upsampled - 1)) : 0.0F;
  }
  return axis;
}

void CheckSizesOf31Bits(const Argument& argument) {
  const Dims& dims = argument.tensor.view_dims;
  if (CurrentProduct() == Product::k950 || *std::max_element(dims.begin(), dims.end()) <= INT32_MAX) return;
  FailShape(argument, "sizes of 31 bits");
}

void CheckNoNegativeScale(const char* name, double scale) {
  if (scale < 0) FailInvalid(std::string(name) + ": expected 0 or more, got " + std::to_string(scale));
}

}  // namespace

Plan PlanUpsampleBilinear2d(const UpsampleBilinear2dArguments& given) {
  CheckProduct(kAllProducts);
  CheckNotNull<OperatorError>(given.self, "self", ACLNN_ERR_INNER_NULLPTR);
  CheckNotNull<OperatorError>(given.out, "out", ACLNN_ERR_INNER_NULLPTR);
  const Argument self{"self", given.self};
  const Argument out{"out", given.out};
  // CANN also takes DOUBLE, but not as NCHW; and NHWC, which this library does not compute.
  CheckDataType(self, FloatTypes());
  CheckSameDataType(out, self);
  CheckSameFormat(out, self);
  CheckFormat(self, ACL_FORMAT_NCHW);
  CheckRank(self, {4});
  CheckRank(out, {4});
  CheckSameLeadingDims(out, self, 2);
  CheckNoNegativeScale("scalesW", given.scales_w);
  CheckNoNegativeScale("scalesH", given.scales_h);
  if (given.output_size == nullptr) FailInvalid("outputSize must not be null");
  const IntArrayArgument output_size{"outputSize", given.output_size};
  CheckLength(output_size, {2});
  for (size_t axis = 0; axis < 2; ++axis) CheckDim(out, axis + 2, "that of outputSize", output_size.values[axis]);
  for (const Argument& argument : {self, out}) {
    CheckNoNegativeDim(argument);
    CheckSizesOf31Bits(argument);
  }
  if (self.tensor.empty() || out.tensor.empty()) return {};
  const Dims& in = self.tensor.view_dims;
  const LinearAxis rows = AxisOf("scalesH", in[2], output_size.values[0], given.align_corners, given.scales_h);
  const LinearAxis columns = AxisOf("scalesW", in[3], output_size.values[1], given.align_corners, given.scales_w);
  Plan plan = PlanOf({self}, {out});
  plan.PromiseTimeOfBytes();
  plan.SetKernel<UpsampleBilinear2d>(LinearUpsampling{in[0] * in[1], rows, columns}, self.tensor.data_type);
  return plan;
}

Plan PlanUpsampleBilinear2dBackwardV2(const UpsampleBilinear2dBackwardV2Arguments& given) {
  CheckProduct(kAllProducts);
  const Argument grad_out{"gradOut", given.grad_out};
  const IntArrayArgument input_size{"inputSize", given.input_size};
  const IntArrayArgument output_size{"outputSize", given.output_size};
  const Argument out{"out", given.out};
  CheckRank(grad_out, {4});
  CheckLength(input_size, {4});
  CheckLength(output_size, {2});
  // A device also takes NHWC, but then mistakes the order of inputSize.
  CheckFormat(out, ACL_FORMAT_NCHW);
  if (grad_out.tensor.format == ACL_FORMAT_NHWC) CheckFormat(grad_out, ACL_FORMAT_NCHW);
  CheckSizes(grad_out, output_size.values, input_size.values, out);
  // A device does not look at the type if the sizes are equal.
  CheckDataType(grad_out, FloatTypes());
  CheckSameDataType(out, grad_out);
  CheckNoNegativeDim(grad_out);
  CheckSizesOf31Bits(grad_out);
  const Dims& in = input_size.values;
  const LinearAxis rows = AxisOf("scalesH", in[2], output_size.values[0], given.align_corners, given.scales_h);
  const LinearAxis columns = AxisOf("scalesW", in[3], output_size.values[1], given.align_corners, given.scales_w);
  if (grad_out.tensor.empty()) return {};
  Plan plan = PlanOf({grad_out}, {out});
  plan.PromiseTimeOfBytes();
  plan.SetKernel<UpsampleBilinear2dBackward>(LinearUpsampling{in[0] * in[1], rows, columns}, grad_out.tensor.data_type);
  return plan;
}

}  // namespace acl_host
