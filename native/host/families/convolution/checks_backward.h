// The checks of aclnnConvolutionBackward, in CANN's order.
#pragma once

#include <vector>

#include "families/convolution/geometry.h"
#include "plan/checks.h"

namespace acl_host {

// The outputs that the caller gave, and which of them are wanted.
struct ConvolutionOutputs {
  OptionalArgument grad_input;
  OptionalArgument grad_weight;
  OptionalArgument grad_bias;
  const std::vector<bool>& mask;

  // Null unless it is wanted.
  [[nodiscard]] const Argument* input() const { return mask[0] ? &*grad_input : nullptr; }
  [[nodiscard]] const Argument* weight() const { return mask[1] ? &*grad_weight : nullptr; }
  [[nodiscard]] const Argument* bias() const { return mask[2] ? &*grad_bias : nullptr; }
};

// In this order.
void CheckDataTypes(const ConvolvedArguments& given, const ConvolutionOutputs& outputs);
void CheckFormats(const ConvolvedArguments& given, const ConvolutionOutputs& outputs);
void CheckNumbers(const ConvolvedArguments& given);

// Then either, if input or weight is empty, or both others.
void CheckEmpty(const ConvolvedArguments& given, const ConvolutionOutputs& outputs, const aclIntArray* bias_sizes);
void CheckShapes(const ConvolvedArguments& given, const ConvolutionOutputs& outputs, const aclIntArray* bias_sizes);
void CheckRoute(const ConvolvedArguments& given, const ConvolutionOutputs& outputs, int8_t cube_math_type);

}  // namespace acl_host
