// aclnnLayerNormBackward: its checks and its plan.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "families/normalisation/operands.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910A, Product::k910B, Product::k910_93, Product::k310P, Product::k950};

struct Tensors {
  explicit Tensors(const LayerNormBackwardArguments& arguments)
      : grad_out("gradOut", arguments.grad_out),
        input("input", arguments.input),
        normalized_shape("normalizedShape", arguments.normalized_shape),
        mean("mean", arguments.mean),
        rstd("rstd", arguments.rstd),
        weight(IfGiven("weightOptional", arguments.weight_optional)),
        bias(IfGiven("biasOptional", arguments.bias_optional)),
        mask(OutputMask(arguments.output_mask, 3)),
        outputs{IfGiven("gradInputOut", arguments.grad_input_out), IfGiven("gradWeightOut", arguments.grad_weight_out),
                IfGiven("gradBiasOut", arguments.grad_bias_out)} {}

  [[nodiscard]] bool wants(size_t output) const { return mask[output]; }

  Argument grad_out;
  Argument input;
  IntArrayArgument normalized_shape;
  Argument mean;
  Argument rstd;
  OptionalArgument weight;
  OptionalArgument bias;
  const std::vector<bool>& mask;
  std::array<OptionalArgument, 3> outputs;
};

void CheckMask(const Tensors& tensors) {
  constexpr std::array kNames = {"gradInputOut", "gradWeightOut", "gradBiasOut"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (tensors.wants(i) && !tensors.outputs[i]) CheckNotNull<OperatorError>(nullptr, kNames[i]);
  }
}

// Every product takes all three types of each tensor, and casts.
void CheckTypes(const Tensors& tensors) {
  const std::vector<aclDataType> types = {ACL_FLOAT16, ACL_FLOAT, ACL_BF16};
  for (const Argument& each : {tensors.grad_out, tensors.input, tensors.mean, tensors.rstd}) {
    CheckDataType(each, types);
  }
  for (const auto& each : {tensors.weight, tensors.bias, tensors.outputs[0], tensors.outputs[1], tensors.outputs[2]}) {
    if (each) CheckDataType(*each, types);
  }
  CheckSameDataType(tensors.grad_out, tensors.input);
  if (tensors.weight && tensors.weight->tensor.data_type != ACL_FLOAT) {
    CheckSameDataType(*tensors.weight, tensors.input);
  }
}

void CheckCount(const Argument& argument, const char* what, int64_t expected) {
  CheckNoNegativeDim(argument);
  if (ElementCount(argument.tensor.view_dims) == expected) return;
  FailShape(argument, std::string(what) + ", " + std::to_string(expected) + " elements");
}

// A device compares only a part of normalizedShape, and then reads weights of another size out of bounds.
void CheckNormalizedShape(const Tensors& tensors) {
  const Dims& sizes = tensors.normalized_shape.values;
  const Dims& dims = tensors.input.tensor.view_dims;
  if (!sizes.empty() && sizes.size() <= dims.size() && std::equal(sizes.rbegin(), sizes.rend(), dims.rbegin())) return;
  FailInvalid("normalizedShape: expected the last sizes of input, of shape " + DimsText(dims) + ", got " +
              DimsText(sizes));
}

// Returns the rows and columns, as samples and channels.
Normalisation CheckShapes(const Tensors& tensors) {
  for (const Argument& each : {tensors.grad_out, tensors.input, tensors.mean, tensors.rstd}) CheckMostDims(each);
  CheckNormalizedShape(tensors);
  const Dims& sizes = tensors.normalized_shape.values;
  for (const auto& each : {tensors.weight, tensors.bias}) {
    if (each) CheckShape(*each, "normalizedShape", sizes);
  }
  CheckSameShape(tensors.grad_out, tensors.input);
  CheckSameShape(tensors.mean, tensors.rstd);
  CheckNoNegativeDim(tensors.input);
  const Dims& dims = tensors.input.tensor.view_dims;
  Normalisation norm{};
  norm.samples = ElementCount(Dims(dims.begin(), dims.end() - static_cast<int64_t>(sizes.size())));
  norm.channels = ElementCount(sizes);
  norm.cells = 1;
  norm.groups = 1;
  CheckCount(tensors.mean, "one value for each row", norm.samples);
  if (tensors.wants(0)) CheckSameShape(*tensors.outputs[0], tensors.input);
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (tensors.wants(i)) CheckCount(*tensors.outputs[i], "those of normalizedShape", norm.channels);
  }
  return norm;
}

// Without rows the sums over them are 0.
Plan ZeroSums(const Tensors& tensors) {
  Plan plan;
  bool has_outputs = false;
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (!tensors.wants(i) || tensors.outputs[i]->tensor.empty()) continue;
    CheckAddressable(*tensors.outputs[i]);
    plan.AddOutput(tensors.outputs[i]->tensor);
    has_outputs = true;
  }
  if (!has_outputs) return plan;
  plan.PromiseTimeOfBytes();
  plan.SetZeros();
  return plan;
}

}  // namespace

Plan PlanLayerNormBackward(const LayerNormBackwardArguments& arguments) {
  CheckProduct(kProducts);
  const Tensors tensors(arguments);
  CheckMask(tensors);
  CheckTypes(tensors);
  Normalisation norm = CheckShapes(tensors);
  if (!tensors.wants(0) && !tensors.wants(1) && !tensors.wants(2)) return {};
  if (norm.samples == 0 || norm.channels == 0) return ZeroSums(tensors);

  Plan plan;
  (void)ElementCount(tensors.input.tensor.view_dims);
  NormalisationOperands operands(plan);
  const auto wanted = [&](size_t output) { return tensors.wants(output) ? tensors.outputs[output] : std::nullopt; };
  norm.grad_out = operands.AddInput(tensors.grad_out);
  norm.input = operands.AddInput(tensors.input);
  norm.mean = operands.AddInput(tensors.mean);
  norm.rstd = operands.AddInput(tensors.rstd);
  norm.weight = operands.AddInput(tensors.weight);
  norm.grad_input = operands.AddOutput(wanted(0));
  norm.grad_weight = operands.AddOutput(wanted(1));
  norm.grad_bias = operands.AddOutput(wanted(2));
  SetNormalisation(plan, norm);
  return plan;
}

}  // namespace acl_host
