// aclnnGroupNormBackward: its checks and its plan. Unlike elsewhere, all that is wrong with the mask and with wanted
// outputs, null pointers included, is 161002.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "families/normalisation/operands.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910A, Product::k910B, Product::k910_93, Product::k950};

constexpr std::array kOutputs = {"gradInput", "gradGammaOut", "gradBetaOut"};

struct Tensors {
  explicit Tensors(const GroupNormBackwardArguments& given)
      : grad_out("gradOut", given.grad_out),
        input("input", given.input),
        mean("mean", given.mean),
        rstd("rstd", given.rstd),
        gamma(IfGiven("gamma", given.gamma)),
        outputs{IfGiven(kOutputs[0], given.grad_input), IfGiven(kOutputs[1], given.grad_gamma_out),
                IfGiven(kOutputs[2], given.grad_beta_out)} {
    const std::vector<bool>& mask =
        OutputMask(given.output_mask, outputs.size(), {ACLNN_ERR_PARAM_INVALID, ACLNN_ERR_PARAM_INVALID});
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (mask[i] && !outputs[i]) FailInvalid(std::string(kOutputs[i]) + " must not be null");
      if (!mask[i]) outputs[i].reset();
    }
  }

  Argument grad_out;
  Argument input;
  Argument mean;
  Argument rstd;
  OptionalArgument gamma;
  std::array<OptionalArgument, 3> outputs;  // those that are wanted
};

void CheckTypes(const Tensors& tensors) {
  CheckDataType(tensors.grad_out, FloatTypes());
  CheckSameDataType(tensors.input, tensors.grad_out);
  if (CurrentProduct() != Product::k950 || tensors.mean.tensor.data_type != ACL_FLOAT)
    CheckSameDataType(tensors.mean, tensors.grad_out);
  CheckSameDataType(tensors.rstd, tensors.mean);
  if (tensors.outputs[0]) CheckSameDataType(*tensors.outputs[0], tensors.grad_out);
  for (const auto& each : {tensors.gamma, tensors.outputs[1], tensors.outputs[2]}) {
    if (each) CheckSameDataType(*each, tensors.mean);
  }
}

void CheckGroups(const Normalisation& norm) {
  const auto expect = [](bool holds, const char* name, const std::string& expected, int64_t value) {
    if (!holds) FailInvalid(std::string(name) + ": expected " + expected + ", got " + std::to_string(value));
  };
  // No device looks at these signs.
  expect(norm.samples >= 0, "N", "at least 0", norm.samples);
  expect(norm.channels >= 0, "C", "at least 0", norm.channels);
  expect(norm.cells >= 0, "HxW", "at least 0", norm.cells);
  expect(norm.groups > 0, "group", "more than 0", norm.groups);
  expect(norm.channels % norm.groups == 0, "C", "a multiple of group, " + std::to_string(norm.groups), norm.channels);
  const Product product = CurrentProduct();
  if (product != Product::k910B && product != Product::k910_93) return;
  constexpr int64_t kMostOfGroup = 8000;
  constexpr int64_t kMostChannels = 240000;
  expect(norm.channels <= kMostChannels, "C", "at most 240000", norm.channels);
  expect(norm.channels / norm.groups <= kMostOfGroup, "C", "at most 8000 channels in a group",
         norm.channels / norm.groups);
}

void CheckCount(const Argument& argument, const char* what, const Dims& sizes) {
  CheckNoNegativeDim(argument);
  if (argument.tensor.rank() <= 8 && ElementCount(argument.tensor.view_dims) == ElementCount(sizes)) return;
  FailShape(argument, std::string(what) + ", " + std::to_string(ElementCount(sizes)) + " elements in at most 8 dims");
}

void CheckShapes(const Tensors& tensors, const Normalisation& norm) {
  for (const Argument& each : {tensors.grad_out, tensors.input}) {
    CheckCount(each, "N * C * HxW", {norm.samples, norm.channels, norm.cells});
  }
  for (const Argument& each : {tensors.mean, tensors.rstd}) CheckCount(each, "N * group", {norm.samples, norm.groups});
  if (tensors.gamma) CheckCount(*tensors.gamma, "C", {norm.channels});
  if (tensors.outputs[0]) CheckSameShape(*tensors.outputs[0], tensors.input);
  const Dims parameter = tensors.gamma ? tensors.gamma->tensor.view_dims : Dims{norm.channels};
  for (const auto& each : {tensors.outputs[1], tensors.outputs[2]}) {
    if (each) CheckShape(*each, "the shape of gamma", parameter);
  }
}

}  // namespace

Plan PlanGroupNormBackward(const GroupNormBackwardArguments& given) {
  CheckProduct(kProducts);
  const Tensors tensors(given);
  CheckTypes(tensors);
  Normalisation norm{};
  norm.samples = given.n;
  norm.channels = given.c;
  norm.cells = given.hx_w;
  norm.groups = given.group;
  CheckGroups(norm);
  CheckShapes(tensors, norm);

  Plan plan;
  // Nothing is written, also where gradients of the parameters are not empty. The 950 writes zeros to these, also to
  // ones that are not wanted.
  if (tensors.input.tensor.empty()) return plan;
  if (!tensors.outputs[0] && !tensors.outputs[1] && !tensors.outputs[2]) return plan;
  NormalisationOperands operands(plan);
  norm.grad_out = operands.AddInput(tensors.grad_out);
  norm.input = operands.AddInput(tensors.input);
  norm.mean = operands.AddInput(tensors.mean);
  norm.rstd = operands.AddInput(tensors.rstd);
  norm.weight = operands.AddInput(tensors.gamma);
  norm.grad_input = operands.AddOutput(tensors.outputs[0]);
  norm.grad_weight = operands.AddOutput(tensors.outputs[1]);
  norm.grad_bias = operands.AddOutput(tensors.outputs[2]);
  SetNormalisation(plan, norm);
  return plan;
}

}  // namespace acl_host
