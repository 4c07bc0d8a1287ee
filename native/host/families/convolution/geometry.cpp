#include "families/convolution/geometry.h"

#include <algorithm>
#include <string>

namespace acl_host {
namespace {

using Int128 = __int128;

// The zeros in front of an axis, and on both sides.
struct Padding {
  int64_t front;
  Int128 both;
};

Padding PaddingOf(const Dims& values, size_t axis, size_t axes) {
  if (values.size() == axes) return {values[axis], Int128{values[axis]} * 2};
  return {values[2 * axis], Int128{values[2 * axis]} + values[2 * axis + 1]};
}

// From the first tap of a kernel to the last one.
Int128 ReachOf(const ConvolvedArguments& arguments, size_t axis) {
  return Int128{arguments.dilation.values[axis]} * (arguments.weight.tensor.view_dims[axis + 2] - 1) + 1;
}

ConvolvedStrides Spread(const Dims& strides) {
  ConvolvedStrides spread{strides[0], strides[1], {}};
  std::copy_backward(strides.begin() + 2, strides.end(), spread.axes.end());
  return spread;
}

}  // namespace

bool Fits(const ConvolvedArguments& arguments, size_t axis) {
  const Int128 size = arguments.input.tensor.view_dims[axis + 2];
  return size + PaddingOf(arguments.padding.values, axis, arguments.spatial_axes()).both >= ReachOf(arguments, axis);
}

std::optional<int64_t> ResultSize(const ConvolvedArguments& arguments, size_t axis) {
  constexpr Int128 kMost = INT64_MAX / 8;
  // No product of two numbers of 63 bits exceeds 126 bits.
  const Int128 in = arguments.input.tensor.view_dims[axis + 2];
  const Int128 stride = arguments.stride.values[axis];
  const Int128 both = PaddingOf(arguments.padding.values, axis, arguments.spatial_axes()).both;
  const Int128 reach = ReachOf(arguments, axis);
  const Int128 extent = arguments.transposed ? (in - 1) * stride : in;
  if (both > kMost || reach > kMost || extent > kMost) return std::nullopt;
  const Int128 size = arguments.transposed ? extent - both + reach + arguments.output_padding.values[axis]
                                           : (in + both - reach) / stride + 1;
  if (size > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(std::max<Int128>(size, -1));
}

void CheckSizes(const ConvolvedArguments& arguments) {
  for (size_t axis = 0; axis < arguments.spatial_axes(); ++axis) {
    const std::optional<int64_t> expected = ResultSize(arguments, axis);
    if (!expected || *expected < 1 || !(arguments.transposed || Fits(arguments, axis))) {
      FailShape(arguments.weight, "a kernel with which the forward pass has a result along dim " +
                                      std::to_string(axis + 2) + " of input, shape " +
                                      DimsText(arguments.input.tensor.view_dims));
    }
    CheckDim(arguments.result, axis + 2, "that of the forward pass", *expected);
  }
}

Convolution ConvolutionOf(const ConvolvedArguments& arguments) {
  const Dims& small = arguments.small().tensor.view_dims;
  const Dims& big = arguments.big().tensor.view_dims;
  const Dims& weight = arguments.weight.tensor.view_dims;
  Convolution convolution{arguments.input.tensor.data_type,
                          small[0],
                          arguments.groups,
                          small[1] / arguments.groups,
                          weight[1],
                          {},
                          StridesOf(arguments.small().tensor),
                          StridesOf(arguments.big().tensor),
                          StridesOf(arguments.weight.tensor)};
  const size_t axes = arguments.spatial_axes();
  for (size_t i = 0; i < axes; ++i) {
    ConvolvedAxis& axis = convolution.axes[kConvolvedAxes - axes + i];
    axis.small = small[i + 2];
    axis.big = big[i + 2];
    axis.kernel = weight[i + 2];
    if (axis.small > 1) axis.stride = arguments.stride.values[i];
    axis.padding = PaddingOf(arguments.padding.values, i, axes).front;
    if (axis.kernel > 1) axis.dilation = arguments.dilation.values[i];
  }
  return convolution;
}

ConvolvedStrides StridesOf(const aclTensor& tensor) { return Spread(tensor.strides); }
ConvolvedStrides RowMajorStridesOf(const aclTensor& tensor) { return Spread(ContiguousStrides(tensor.view_dims)); }

}  // namespace acl_host
