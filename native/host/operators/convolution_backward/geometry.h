// The sizes of a convolution, and where its tensors lie in memory.
#pragma once

#include "operator_plans.h"
#include "operators/convolution_backward/computation.h"
#include "plan/checks.h"

namespace acl_host {

// The tensors and lists of a call. Their ranks are equal, and lists have a value for each spatial axis; padding may
// have two.
struct ConvolutionArguments {
  Argument grad_output;
  Argument input;
  Argument weight;
  IntArrayArgument stride;
  IntArrayArgument padding;
  IntArrayArgument dilation;
  IntArrayArgument output_padding;
  bool transposed;
  int64_t groups;

  [[nodiscard]] const Argument& small() const { return transposed ? input : grad_output; }
  [[nodiscard]] const Argument& big() const { return transposed ? grad_output : input; }
  [[nodiscard]] size_t spatial_axes() const { return input.tensor.view_dims.size() - 2; }
};

// Fails unless the spatial sizes are those of a forward pass.
void CheckSizes(const ConvolutionArguments& arguments);

// The convolution of tensors that passed all checks.
[[nodiscard]] Convolution ConvolutionOf(const ConvolutionArguments& arguments);

// Those of a tensor, in elements; and those of a row-major tensor of its shape.
[[nodiscard]] ConvolvedStrides StridesOf(const aclTensor& tensor);
[[nodiscard]] ConvolvedStrides RowMajorStridesOf(const aclTensor& tensor);

}  // namespace acl_host
