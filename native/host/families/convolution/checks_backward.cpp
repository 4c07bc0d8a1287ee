#include "families/convolution/checks_backward.h"

#include <algorithm>
#include <string>

namespace acl_host {
namespace {

void CheckFormatOfRank(const Argument& argument) {
  CheckRank(argument, {3, 4, 5});
  const int64_t rank = argument.tensor.rank();
  if (rank == 3 && argument.tensor.format == ACL_FORMAT_ND) return;
  CheckFormat(argument, rank == 3 ? ACL_FORMAT_NCL : rank == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_NCDHW);
}

// CANN bounds outputPadding only along three axes, and then by the stride alone.
void CheckOutputPadding(const ConvolvedArguments& given) {
  const Dims& values = given.output_padding.values;
  for (size_t axis = 0; axis < std::min(values.size(), given.stride.values.size()); ++axis) {
    const int64_t dilation = axis < given.dilation.values.size() ? given.dilation.values[axis] : 1;
    const int64_t stride = given.stride.values[axis];
    const bool is_by_stride = given.spatial_axes() == 3;
    if (values[axis] < (is_by_stride ? stride : std::max(stride, dilation))) continue;
    FailInvalid("outputPadding: expected values below " +
                std::string(is_by_stride ? "stride" : "the larger one of stride and dilation") + ", got " +
                DimsText(values));
  }
}

void CheckLengths(const ConvolvedArguments& given) {
  const size_t axes = given.spatial_axes();
  const auto check_sides = [&](const IntArrayArgument& list) {
    axes == 2 ? CheckLength(list, {2, 4}) : CheckLength(list, {axes});
  };
  CheckLength(given.stride, {axes});
  CheckLength(given.dilation, {axes});
  check_sides(given.padding);
  // Nobody says what four values mean, unless they are zeros.
  given.transposed ? CheckLength(given.output_padding, {axes}) : check_sides(given.output_padding);
}

// The number of grad_output's channels that the weight leads to.
int64_t OutputChannels(const ConvolvedArguments& given) {
  const Dims& weight = given.weight.tensor.view_dims;
  return given.transposed ? ElementCount({weight[1], given.groups}) : weight[0];
}

void CheckChannels(const ConvolvedArguments& given) {
  const Dims& weight = given.weight.tensor.view_dims;
  CheckDim(given.weight, 0, ("the channels of " + std::string(given.small().name)).c_str(),
           given.small().tensor.view_dims[1]);
  CheckDim(given.big(), 1, "dim 1 of weight times groups", ElementCount({weight[1], given.groups}));
  if (weight[0] % given.groups != 0) {
    FailShape(given.weight, "dim 0 to be a multiple of groups, " + std::to_string(given.groups));
  }
}

void CheckOutputs(const ConvolvedArguments& given, const ConvolutionOutputs& outputs, int64_t channels) {
  if (outputs.input() != nullptr) CheckSameShape(*outputs.input(), given.input);
  if (outputs.weight() != nullptr) CheckSameShape(*outputs.weight(), given.weight);
  if (outputs.bias() != nullptr) CheckShape(*outputs.bias(), "the channels of gradOutput", {channels});
}

void CheckBiasSizes(const aclIntArray* bias_sizes, int64_t channels) {
  if (bias_sizes == nullptr || bias_sizes->values == Dims{channels}) return;
  FailInvalid("biasSizes: expected " + DimsText({channels}) + ", got " + DimsText(bias_sizes->values));
}

}  // namespace

void CheckDataTypes(const ConvolvedArguments& given, const ConvolutionOutputs& outputs) {
  const std::vector<aclDataType> allowed = FloatTypes();
  for (const Argument* each : {&given.result, &given.input, &given.weight}) CheckDataType(*each, allowed);
  for (const OptionalArgument* each : {&outputs.grad_input, &outputs.grad_weight, &outputs.grad_bias}) {
    if (*each) CheckDataType(**each, allowed);
  }
  // Devices other than the 950 convert mixed types.
  for (const Argument* each : {&given.input, &given.weight}) CheckSameDataType(*each, given.result);
  for (const Argument* each : {outputs.input(), outputs.weight(), outputs.bias()}) {
    if (each != nullptr) CheckSameDataType(*each, given.result);
  }
}

void CheckFormats(const ConvolvedArguments& given, const ConvolutionOutputs& outputs) {
  for (const Argument* each : {&given.result, &given.input, &given.weight, outputs.input(), outputs.weight()}) {
    if (each != nullptr) CheckFormatOfRank(*each);
  }
  if (outputs.bias() == nullptr) return;
  if (HasBf16(CurrentProduct()) && !given.transposed) CheckFormat(*outputs.bias(), ACL_FORMAT_ND);
  CheckNotPrivateFormat(*outputs.bias());
}

void CheckNumbers(const ConvolvedArguments& given) {
  CheckEachPositive(given.stride);
  CheckEachAtLeast0(given.padding);
  CheckEachPositive(given.dilation);
  const Dims& values = given.output_padding.values;
  if (given.transposed) {
    CheckEachAtLeast0(given.output_padding);
    CheckOutputPadding(given);
  } else if (std::any_of(values.begin(), values.end(), [](int64_t value) { return value != 0; })) {
    FailInvalid("outputPadding: expected zeros unless transposed, got " + DimsText(values));
  }
  if (given.groups < 1) FailInvalid("groups: expected a value above 0, got " + std::to_string(given.groups));
}

void CheckEmpty(const ConvolvedArguments& given, const ConvolutionOutputs& outputs, const aclIntArray* bias_sizes) {
  for (const Argument* each : {&given.input, &given.weight}) {
    if (!HasBf16(CurrentProduct())) CheckNoEmptyDim(*each, 0);
    CheckSameRank(*each, given.result);
    CheckNoNegativeDim(*each);
  }
  CheckNoNegativeDim(given.result);
  const int64_t channels = given.transposed ? OutputChannels(given) : given.result.tensor.view_dims[1];
  if (outputs.bias() != nullptr) {
    if (bias_sizes == nullptr) FailInvalid("biasSizes: expected " + DimsText({channels}) + ", got null");
    CheckBiasSizes(bias_sizes, channels);
  }
  const Dims& input = given.input.tensor.view_dims;
  const Dims& weight = given.weight.tensor.view_dims;
  if (outputs.input() != nullptr && input[0] != 0 && input[1] != 0) {
    FailShape(given.input, "no batch or no channels, or no empty tensor at all");
  }
  CheckLengths(given);
  CheckOutputs(given, outputs, channels);
  CheckChannels(given);
  if (given.transposed && weight[0] == 0) FailShape(given.weight, "dim 0 above 0");
  CheckNoEmptyDim(given.weight, 2);
  CheckDim(given.result, 0, "that of input", input[0]);
  CheckDim(given.result, 1, "the channels of the forward pass", OutputChannels(given));
  CheckSizes(given);
}

void CheckShapes(const ConvolvedArguments& given, const ConvolutionOutputs& outputs, const aclIntArray* bias_sizes) {
  const int64_t channels = given.result.tensor.view_dims[1];
  for (const Argument* each : {&given.input, &given.weight}) CheckSameRank(*each, given.result);
  for (const Argument* each : {&given.result, &given.input, &given.weight}) {
    CheckNoNegativeDim(*each);
    CheckNoEmptyDim(*each, 0);
  }
  CheckOutputs(given, outputs, channels);
  CheckLengths(given);
  CheckChannels(given);
  // Devices do not check the batch, the sizes along one or two axes, and biasSizes, and answer wrongly.
  CheckSizes(given);
  CheckDim(given.result, 0, "that of input", given.input.tensor.view_dims[0]);
  if (outputs.bias() != nullptr) CheckBiasSizes(bias_sizes, channels);
}

void CheckRoute(const ConvolvedArguments& given, const ConvolutionOutputs& outputs, int8_t cube_math_type) {
  if (given.spatial_axes() != 3) return;
  const Product product = CurrentProduct();
  if (!HasBf16(product)) FailShape(given.input, "one or two spatial axes on this product");
  const bool is_half_of_float = cube_math_type == 2 && given.input.tensor.data_type == ACL_FLOAT;
  if (product != Product::k950 && is_half_of_float && given.groups > 1 && outputs.weight() != nullptr) {
    FailInvalid("cubeMathType: expected another value than 2 for gradWeight of FLOAT along three axes in groups");
  }
}

}  // namespace acl_host
