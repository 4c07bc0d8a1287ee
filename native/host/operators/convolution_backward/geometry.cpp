#include "operators/convolution_backward/geometry.h"

#include <algorithm>
#include <optional>
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

// The size of grad_output along an axis; nothing if it is below 1, or if positions do not fit in 63 bits.
std::optional<int64_t> ForwardSize(const ConvolutionArguments& arguments, size_t axis) {
  constexpr Int128 kMost = INT64_MAX / 8;
  // No product of two numbers of 63 bits exceeds 126 bits.
  const Int128 in = arguments.input.tensor.view_dims[axis + 2];
  const Int128 stride = arguments.stride.values[axis];
  const Int128 both = PaddingOf(arguments.padding.values, axis, arguments.spatial_axes()).both;
  const Int128 reach = Int128{arguments.dilation.values[axis]} * (arguments.weight.tensor.view_dims[axis + 2] - 1) + 1;
  const Int128 extent = arguments.transposed ? (in - 1) * stride : in;
  if (both > kMost || reach > kMost || extent > kMost) return std::nullopt;
  Int128 size = 0;
  if (arguments.transposed) {
    size = extent - both + reach + arguments.output_padding.values[axis];
  } else if (in + both >= reach) {
    size = (in + both - reach) / stride + 1;
  }
  if (size < 1) return std::nullopt;
  return static_cast<int64_t>(size);
}

ConvolvedStrides Spread(const Dims& strides) {
  ConvolvedStrides spread{strides[0], strides[1], {}};
  std::copy_backward(strides.begin() + 2, strides.end(), spread.axes.end());
  return spread;
}

}  // namespace

void CheckSizes(const ConvolutionArguments& arguments) {
  const Dims& dims = arguments.grad_output.tensor.view_dims;
  for (size_t axis = 0; axis < arguments.spatial_axes(); ++axis) {
    const std::optional<int64_t> expected = ForwardSize(arguments, axis);
    if (!expected) {
      FailShape(arguments.weight, "a kernel with which the forward pass has a result along dim " +
                                      std::to_string(axis + 2) + " of input, shape " +
                                      DimsText(arguments.input.tensor.view_dims));
    }
    if (dims[axis + 2] != *expected) {
      CheckDim(arguments.grad_output, axis + 2, "that of the forward pass", *expected);
    }
  }
}

Convolution ConvolutionOf(const ConvolutionArguments& arguments) {
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
