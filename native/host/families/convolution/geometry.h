// The sizes of a convolution, and where its tensors lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "families/convolution/computation.h"
#include "plan/checks.h"

namespace acl_host {

// The tensors and lists of a call. Their ranks are equal, and lists have a value for each spatial axis; padding may
// have two. Nobody looks at output_padding unless the convolution is transposed.
struct ConvolvedArguments {
  Argument result;  // or its gradient
  Argument input;
  Argument weight;
  IntArrayArgument stride;
  IntArrayArgument padding;
  IntArrayArgument dilation;
  IntArrayArgument output_padding;
  bool transposed;
  int64_t groups;

  [[nodiscard]] const Argument& small() const { return transposed ? input : result; }
  [[nodiscard]] const Argument& big() const { return transposed ? result : input; }
  [[nodiscard]] size_t spatial_axes() const { return input.tensor.view_dims.size() - 2; }
};

// Whether the kernel fits into the input and its padding along a spatial axis.
[[nodiscard]] bool Fits(const ConvolvedArguments& arguments, size_t axis);

// The size of the result along a spatial axis, which may be 0 or -1 in place of all numbers below; nothing if positions
// do not fit in 63 bits.
[[nodiscard]] std::optional<int64_t> ResultSize(const ConvolvedArguments& arguments, size_t axis);

// Fails unless the result has spatial sizes, and these are its own.
void CheckSizes(const ConvolvedArguments& arguments);

// The convolution of tensors that passed all checks.
[[nodiscard]] Convolution ConvolutionOf(const ConvolvedArguments& arguments);

// Those of a tensor, in elements; and those of a row-major tensor of its shape.
[[nodiscard]] ConvolvedStrides StridesOf(const aclTensor& tensor);
[[nodiscard]] ConvolvedStrides RowMajorStridesOf(const aclTensor& tensor);

}  // namespace acl_host
