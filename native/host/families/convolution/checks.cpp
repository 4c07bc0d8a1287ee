#include "families/convolution/checks.h"

#include <algorithm>
#include <array>
#include <string>

namespace acl_host {
namespace {

constexpr size_t kBiasAxes = 1;

// Devices convert mixed types.
void CheckTypes(const ConvolvedArguments& given, const OptionalArgument& bias) {
  const std::vector<aclDataType> allowed = FloatTypes();
  if (bias) CheckDataType(*bias, allowed);
  for (const Argument* each : {&given.input, &given.weight, &given.result}) CheckDataType(*each, allowed);
  if (bias) CheckSameDataType(*bias, given.input);
  for (const Argument* each : {&given.weight, &given.result}) CheckSameDataType(*each, given.input);
}

// Dim 1 of weight times groups, or what no tensor has.
int64_t GroupedChannels(const ConvolvedArguments& given) {
  const __int128 channels = static_cast<__int128>(given.weight.tensor.view_dims[1]) * given.groups;
  return static_cast<int64_t>(std::min<__int128>(channels, INT64_MAX));
}

// The channels of the result that the weight leads to.
int64_t ResultChannels(const ConvolvedArguments& given) {
  return given.transposed ? GroupedChannels(given) : given.weight.tensor.view_dims[0];
}

void CheckRanks(const ConvolvedArguments& given, const OptionalArgument& bias) {
  for (const Argument* each : {&given.input, &given.weight, &given.result}) CheckRank(*each, {3, 4, 5});
  CheckSameRank(given.weight, given.input);
  CheckSameRank(given.result, given.input);
  if (!bias) return;
  CheckRank(*bias, {kBiasAxes});
  CheckDim(*bias, 0, "the channels of output", ResultChannels(given));
}

void CheckLengths(const ConvolvedArguments& given) {
  const size_t axes = given.spatial_axes();
  CheckLength(given.stride, {axes});
  CheckLength(given.dilation, {axes});
  if (axes == 2 || (axes == 1 && !given.transposed)) {
    CheckLength(given.padding, {axes, 2 * axes});
  } else {
    CheckLength(given.padding, {axes});
  }
  if (given.transposed) CheckLength(given.output_padding, {axes});
}

void CheckFormats(const ConvolvedArguments& given, const OptionalArgument& bias) {
  constexpr std::array<aclFormat, 3> kOfAxes = {ACL_FORMAT_NCL, ACL_FORMAT_NCHW, ACL_FORMAT_NCDHW};
  CheckSameFormat(given.result, given.input);
  if (bias && bias->tensor.format != ACL_FORMAT_ND &&
      std::find(kOfAxes.begin(), kOfAxes.end(), bias->tensor.format) == kOfAxes.end()) {
    CheckFormat(*bias, ACL_FORMAT_ND);
  }
  for (const Argument* each : {&given.weight, &given.input}) CheckFormat(*each, kOfAxes[given.spatial_axes() - 1]);
}

void CheckNumbers(const ConvolvedArguments& given) {
  CheckNoNegativeDim(given.input);
  CheckNoNegativeDim(given.weight);
  CheckNoEmptyDim(given.weight, 2);
  CheckEachPositive(given.stride);
  CheckEachPositive(given.dilation);
  // Devices do not check the sign.
  CheckEachAtLeast0(given.padding);
  for (size_t axis = 0; axis < given.spatial_axes() && !given.transposed && !given.input.tensor.empty(); ++axis) {
    if (!Fits(given, axis)) FailShape(given.weight, "a kernel that fits into input and its padding");
  }
  if (given.groups < 1) FailInvalid("groups: expected a value above 0, got " + std::to_string(given.groups));
}

// CANN refuses what reaches both bounds.
void CheckOutputPadding(const ConvolvedArguments& given) {
  const Dims& values = given.output_padding.values;
  for (size_t axis = 0; axis < values.size(); ++axis) {
    const int64_t most = std::max(given.stride.values[axis], given.dilation.values[axis]);
    if (0 <= values[axis] && values[axis] < most) continue;
    FailInvalid("outputPadding: expected values from 0 to below the larger one of stride and dilation, got " +
                DimsText(values));
  }
}

void CheckChannels(const ConvolvedArguments& given) {
  const Dims& weight = given.weight.tensor.view_dims;
  if (given.transposed) {
    CheckDim(given.weight, 0, "the channels of input", given.input.tensor.view_dims[1]);
    CheckOutputPadding(given);
  } else {
    CheckDim(given.input, 1, "dim 1 of weight times groups", GroupedChannels(given));
  }
  if (weight[0] % given.groups != 0) {
    FailShape(given.weight, "dim 0 to be a multiple of groups, " + std::to_string(given.groups));
  }
}

// Of a transposed convolution, devices but the 950 have no kernels for taps that reach farther beyond the padding; nor,
// along the last two of three axes, for padding that reaches beyond the taps.
void CheckReach(const ConvolvedArguments& given) {
  constexpr __int128 kMost = 255;
  const size_t axes = given.spatial_axes();
  for (size_t axis = axes == 3 ? 1 : 0; axis < axes; ++axis) {
    const __int128 reach =
        static_cast<__int128>(given.dilation.values[axis]) * (given.weight.tensor.view_dims[axis + 2] - 1) -
        given.padding.values[axis];
    if (reach <= kMost && (axes != 3 || reach >= 0)) continue;
    FailShape(given.weight, "a kernel that reaches " + std::string(axes == 3 ? "0 to" : "at most") +
                                " 255 positions beyond the padding along dim " + std::to_string(axis + 2));
  }
}

void CheckResult(const ConvolvedArguments& given) {
  CheckDim(given.result, 0, "that of input", given.input.tensor.view_dims[0]);
  CheckDim(given.result, 1, "the channels that weight leads to", ResultChannels(given));
  for (size_t axis = 0; axis < given.spatial_axes(); ++axis) {
    const std::optional<int64_t> expected = ResultSize(given, axis);
    if (!expected) FailShape(given.weight, "a kernel whose positions can be counted");
    CheckDim(given.result, axis + 2, "that of the convolution", *expected);
  }
  const bool reads_nothing = given.input.tensor.empty() || given.weight.tensor.empty();
  if (reads_nothing && !given.result.tensor.empty())
    FailShape(given.result, "no elements, as input or weight has none");
}

}  // namespace

void CheckConvolution(const ConvolvedArguments& given, const OptionalArgument& bias, int8_t cube_math_type) {
  CheckTypes(given, bias);
  CheckRanks(given, bias);
  CheckLengths(given);
  CheckFormats(given, bias);
  CheckNumbers(given);
  CheckChannels(given);
  const bool is_empty = given.input.tensor.empty() || given.weight.tensor.empty() || given.result.tensor.empty();
  if (given.transposed) {
    if (given.input.tensor.view_dims[1] == 0) FailShape(given.input, "dim 1 above 0");
    if (CurrentProduct() == Product::k950) CheckNoEmptyDim(given.input, 1);
    if (CurrentProduct() != Product::k950 && !is_empty) CheckReach(given);
  }
  CheckResult(given);
  CheckCubeMathType(cube_math_type, given.input.tensor.data_type == ACL_FLOAT);
}

}  // namespace acl_host
