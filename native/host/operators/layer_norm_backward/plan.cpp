// aclnnLayerNormBackward: its checks and its plan.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "families/layer_norm/chunks.h"
#include "families/layer_norm/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "plan/int_arrays.h"

namespace acl_host {
namespace {

// A pointer that may be null.
std::optional<Argument> IfGiven(const char* name, const aclTensor* pointer) {
  if (pointer == nullptr) return std::nullopt;
  return Argument{name, pointer};
}

struct Tensors {
  explicit Tensors(const LayerNormBackwardArguments& arguments)
      : grad_out("gradOut", arguments.grad_out),
        input("input", arguments.input),
        normalized_shape("normalizedShape", arguments.normalized_shape),
        mean("mean", arguments.mean),
        rstd("rstd", arguments.rstd),
        weight(IfGiven("weightOptional", arguments.weight_optional)),
        bias(IfGiven("biasOptional", arguments.bias_optional)),
        mask(Required<OperatorError>(arguments.output_mask, "outputMask").values),
        outputs{IfGiven("gradInputOut", arguments.grad_input_out), IfGiven("gradWeightOut", arguments.grad_weight_out),
                IfGiven("gradBiasOut", arguments.grad_bias_out)} {}

  [[nodiscard]] bool wants(size_t output) const { return mask[output]; }

  Argument grad_out;
  Argument input;
  IntArrayArgument normalized_shape;
  Argument mean;
  Argument rstd;
  std::optional<Argument> weight;
  std::optional<Argument> bias;
  std::vector<bool> mask;
  std::array<std::optional<Argument>, 3> outputs;
};

void CheckMask(const Tensors& tensors) {
  if (tensors.mask.size() != tensors.outputs.size()) {
    FailInvalid("outputMask: expected 3 values, got " + std::to_string(tensors.mask.size()));
  }
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

void CheckShape(const Argument& argument, const char* what, const Dims& expected) {
  if (argument.tensor.view_dims == expected) return;
  FailInvalid(std::string(argument.name) + ": expected " + what + ", " + DimsText(expected) + ", got " +
              DimsText(argument.tensor.view_dims));
}

void CheckCount(const Argument& argument, const char* what, int64_t expected) {
  CheckNoNegativeDim(argument);
  if (ElementCount(argument.tensor.view_dims) == expected) return;
  FailInvalid(std::string(argument.name) + ": expected " + what + ", " + std::to_string(expected) +
              " elements, got shape " + DimsText(argument.tensor.view_dims));
}

void CheckRanks(const Tensors& tensors) {
  for (const Argument& each : {tensors.grad_out, tensors.input, tensors.mean, tensors.rstd}) {
    if (each.tensor.rank() > 8) {
      FailInvalid(std::string(each.name) + ": expected a rank of at most 8, got shape " +
                  DimsText(each.tensor.view_dims));
    }
  }
}

// A device compares only a part of normalizedShape, and then reads weights of another size out of bounds.
void CheckNormalizedShape(const Tensors& tensors) {
  const Dims& sizes = tensors.normalized_shape.values;
  const Dims& dims = tensors.input.tensor.view_dims;
  if (!sizes.empty() && sizes.size() <= dims.size() && std::equal(sizes.rbegin(), sizes.rend(), dims.rbegin())) return;
  FailInvalid("normalizedShape: expected the last sizes of input, of shape " + DimsText(dims) + ", got " +
              DimsText(sizes));
}

// Returns the rows and columns.
LayerNorm CheckShapes(const Tensors& tensors) {
  CheckRanks(tensors);
  CheckNormalizedShape(tensors);
  const Dims& sizes = tensors.normalized_shape.values;
  for (const auto& each : {tensors.weight, tensors.bias}) {
    if (each) CheckShape(*each, "normalizedShape", sizes);
  }
  CheckSameShape(tensors.grad_out, tensors.input);
  CheckSameShape(tensors.mean, tensors.rstd);
  CheckNoNegativeDim(tensors.input);
  const Dims& dims = tensors.input.tensor.view_dims;
  LayerNorm norm{};
  norm.rows = ElementCount(Dims(dims.begin(), dims.end() - static_cast<int64_t>(sizes.size())));
  norm.columns = ElementCount(sizes);
  CheckCount(tensors.mean, "one value for each row", norm.rows);
  if (tensors.wants(0)) CheckSameShape(*tensors.outputs[0], tensors.input);
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (tensors.wants(i)) CheckCount(*tensors.outputs[i], "those of normalizedShape", norm.columns);
  }
  return norm;
}

// Without rows the sums over them are 0.
Plan ZeroSums(const Tensors& tensors) {
  Plan plan;
  std::vector<size_t> sizes;
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (!tensors.wants(i) || tensors.outputs[i]->tensor.empty()) continue;
    const aclTensor& tensor = tensors.outputs[i]->tensor;
    CheckAddressable(*tensors.outputs[i]);
    sizes.push_back(static_cast<size_t>(ElementCount(tensor.view_dims)) * aclDataTypeSize(tensor.data_type));
    plan.AddOutput(tensor);
  }
  if (sizes.empty()) return plan;
  plan.PromiseTimeOfBytes();
  plan.SetCompute([sizes](const KernelArguments& launch) {
    for (size_t i = 0; i < sizes.size(); ++i) std::memset(launch.outputs[i], 0, sizes[i]);
  });
  return plan;
}

}  // namespace

Plan PlanLayerNormBackward(const LayerNormBackwardArguments& arguments) {
  CheckProduct(CurrentProduct(), {"910A", "910B", "910_93", "310P", "950"});
  const Tensors tensors(arguments);
  CheckMask(tensors);
  CheckTypes(tensors);
  LayerNorm norm = CheckShapes(tensors);
  if (!tensors.wants(0) && !tensors.wants(1) && !tensors.wants(2)) return {};
  if (norm.rows == 0 || norm.columns == 0) return ZeroSums(tensors);

  Plan plan;
  size_t inputs = 0;
  const auto add_input = [&](const Argument& argument) -> FloatOperand {
    CheckAddressable(argument);
    plan.AddInput(argument.tensor);
    return {inputs++, argument.tensor.data_type};
  };
  size_t outputs = 0;
  const auto add_output = [&](size_t output) -> std::optional<FloatOperand> {
    if (!tensors.wants(output)) return std::nullopt;
    CheckAddressable(*tensors.outputs[output]);
    plan.AddOutput(tensors.outputs[output]->tensor);
    return FloatOperand{outputs++, tensors.outputs[output]->tensor.data_type};
  };
  (void)ElementCount(tensors.input.tensor.view_dims);
  norm.grad_out = add_input(tensors.grad_out);
  norm.input = add_input(tensors.input);
  norm.mean = add_input(tensors.mean);
  norm.rstd = add_input(tensors.rstd);
  if (tensors.weight) norm.weight = add_input(*tensors.weight);
  norm.grad_input = add_output(0);
  norm.grad_weight = add_output(1);
  norm.grad_bias = add_output(2);
  if (NeedsRowSums(norm)) plan.AddScratch(RowSumsBytes(norm));
  if (NeedsColumnSums(norm)) plan.AddScratch(ColumnSumsBytes(norm));
  plan.PromiseTimeOfBytes();
  plan.SetCompute(
      [run = AtVectorLevel<LayerNormBackward>(), norm](const KernelArguments& launch) { run(norm, launch); });
  return plan;
}

}  // namespace acl_host
