// aclnnBatchNorm: its checks, in CANN's order, and its plan.
#include <limits>
#include <vector>

#include "families/normalisation/operands.h"
#include "families/rows/fills.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "tensors/data_type.h"

namespace acl_host {
namespace {

// The saved statistics count if training.
struct Tensors {
  Argument input;
  OptionalArgument weight;
  OptionalArgument bias;
  OptionalArgument running_mean;
  OptionalArgument running_var;
  Argument output;
  OptionalArgument save_mean;
  OptionalArgument save_invstd;

  [[nodiscard]] std::vector<OptionalArgument> of_channels() const {
    return {weight, bias, running_mean, running_var, save_mean, save_invstd};
  }
};

Plan FillStatistics(const OptionalArgument& save_mean, const OptionalArgument& save_invstd) {
  std::vector<Fill> fills;
  if (save_mean) fills.push_back({*save_mean, 0});
  if (save_invstd) fills.push_back({*save_invstd, std::numeric_limits<float>::quiet_NaN()});
  return FillsOf(fills);
}

void CheckTypes(const Tensors& tensors) {
  const auto types = FloatTypes();
  CheckDataType(tensors.input, types);
  CheckDataType(tensors.output, types);
  for (const auto& each : {tensors.save_mean, tensors.save_invstd, tensors.weight, tensors.bias, tensors.running_mean,
                           tensors.running_var}) {
    if (each) CheckDataType(*each, types);
  }
}

void CheckFormats(const Tensors& tensors) {
  CheckSameFormat(tensors.output, tensors.input);
  if (tensors.input.tensor.rank() == 5) CheckFormat(tensors.input, ACL_FORMAT_NCDHW);
  CheckNotPrivateFormat(tensors.input);
  // Devices take some formats whose last dim is the channel, which this library does not compute.
  for (const aclFormat format : {ACL_FORMAT_NHWC, ACL_FORMAT_NDHWC}) {
    if (tensors.input.tensor.format == format) CheckFormat(tensors.input, ACL_FORMAT_ND);
  }
}

void CheckShapes(const Tensors& tensors) {
  CheckRank(tensors.input, {2, 3, 4, 5, 6, 7, 8});
  CheckSameShape(tensors.output, tensors.input);
  for (const OptionalArgument& each : tensors.of_channels()) {
    if (!each) continue;
    CheckRank(*each, {1});
    CheckDim(*each, 0, "input's dim 1", tensors.input.tensor.view_dims[1]);
  }
  CheckNoNegativeDim(tensors.input);
}

// A device does not cast the output, and fails to copy it.
void CheckOutputType(const Tensors& tensors) {
  const aclDataType type = tensors.output.tensor.data_type;
  if (type == tensors.input.tensor.data_type) return;
  throw OperatorError(ACLNN_ERR_INNER_NULLPTR, "output: expected the data type of input, " +
                                                   DataTypeName(tensors.input.tensor.data_type) + ", got " +
                                                   DataTypeName(type));
}

}  // namespace

Plan PlanBatchNorm(const BatchNormArguments& given) {
  const Product product = CurrentProduct();
  CheckProduct(kAllProducts);
  const Argument input{"input", given.input};
  const Argument output{"output", given.output};
  if (given.training) {
    CheckNotNull<OperatorError>(given.save_mean, "saveMean");
    CheckNotNull<OperatorError>(given.save_invstd, "saveInvstd");
  }
  const OptionalArgument save_mean = IfGiven("saveMean", given.save_mean);
  const OptionalArgument save_invstd = IfGiven("saveInvstd", given.save_invstd);
  if (input.tensor.empty()) return FillStatistics(save_mean, save_invstd);
  const Tensors tensors{input,
                        IfGiven("weight", given.weight),
                        IfGiven("bias", given.bias),
                        IfGiven("runningMean", given.running_mean),
                        IfGiven("runningVar", given.running_var),
                        output,
                        given.training ? save_mean : std::nullopt,
                        given.training ? save_invstd : std::nullopt};
  CheckTypes(tensors);
  CheckFormats(tensors);
  CheckShapes(tensors);
  CheckOutputType(tensors);

  const Dims& dims = input.tensor.view_dims;
  (void)ElementCount(dims);
  NormalisationValue norm{};
  norm.samples = dims[0];
  norm.channels = dims[1];
  norm.cells = ElementCount(Dims(dims.begin() + 2, dims.end()));
  norm.is_constant = !given.training;
  norm.saves_variance = product != Product::k950;
  norm.eps = static_cast<float>(given.eps);
  norm.momentum = static_cast<float>(given.momentum);
  Plan plan;
  NormalisationOperands operands(plan);
  norm.input = operands.AddInput(input);
  norm.weight = operands.AddInput(tensors.weight);
  norm.bias = operands.AddInput(tensors.bias);
  norm.running_mean = operands.AddInput(tensors.running_mean);
  norm.running_var = operands.AddInput(tensors.running_var);
  norm.out = operands.AddOutput(output);
  if (given.training) {
    norm.updated_mean = operands.AddOutput(tensors.running_mean);
    norm.updated_var = operands.AddOutput(tensors.running_var);
  }
  norm.mean = operands.AddOutput(tensors.save_mean);
  norm.rstd = operands.AddOutput(tensors.save_invstd);
  SetNormalisation(plan, norm);
  return plan;
}

}  // namespace acl_host
