// aclnnBatchNormBackward: its checks and its plan.
#include <optional>
#include <string>
#include <vector>

#include "families/normalisation/operands.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910A, Product::k910B, Product::k910_93, Product::k950};

struct Tensors {
  Argument grad_out;
  Argument input;
  OptionalArgument weight;
  OptionalArgument running_mean;
  OptionalArgument running_var;
  OptionalArgument save_mean;
  OptionalArgument save_invstd;
  OptionalArgument grad_input;
  OptionalArgument grad_weight;
  OptionalArgument grad_bias;
};

OptionalArgument IfWanted(const std::vector<bool>& mask, size_t output, const char* name, const aclTensor* tensor) {
  return mask[output] ? OptionalArgument{Argument{name, tensor}} : OptionalArgument{};
}

void CheckSameOrFloat(const OptionalArgument& argument, const Argument& reference) {
  if (argument && argument->tensor.data_type != ACL_FLOAT) CheckSameDataType(*argument, reference);
}

void CheckPair(const OptionalArgument& first, const OptionalArgument& second) {
  if (first && second) CheckSameDataType(*second, *first);
}

void CheckDataTypes(const Tensors& tensors, Product product) {
  const std::vector<aclDataType> allowed = FloatTypes();
  CheckDataType(tensors.grad_out, allowed);
  CheckSameDataType(tensors.input, tensors.grad_out);
  for (const OptionalArgument* given :
       {&tensors.grad_input, &tensors.grad_weight, &tensors.grad_bias, &tensors.weight, &tensors.running_mean,
        &tensors.running_var, &tensors.save_mean, &tensors.save_invstd}) {
    if (*given) CheckDataType(**given, allowed);
  }
  if (product != Product::k950) return;
  for (const OptionalArgument* given :
       {&tensors.weight, &tensors.running_mean, &tensors.running_var, &tensors.save_mean, &tensors.save_invstd}) {
    CheckSameOrFloat(*given, tensors.grad_out);
  }
  CheckPair(tensors.running_mean, tensors.running_var);
  CheckPair(tensors.save_mean, tensors.save_invstd);
  if (tensors.grad_input) CheckSameDataType(*tensors.grad_input, tensors.grad_out);
  if (tensors.weight) CheckSameOrFloat(tensors.grad_weight, *tensors.weight);
  CheckPair(tensors.grad_weight, tensors.grad_bias);
}

void CheckFormats(const Tensors& tensors, Product product) {
  CheckSameFormat(tensors.input, tensors.grad_out);
  if (tensors.grad_input) CheckSameFormat(*tensors.grad_input, tensors.grad_out);
  CheckNotPrivateFormat(tensors.grad_out);
  if (product == Product::k950 && tensors.grad_out.tensor.rank() == 5) CheckFormat(tensors.grad_out, ACL_FORMAT_NCDHW);
  // The 950 also takes formats whose last dim is the channel, which this library does not compute.
  for (const aclFormat format : {ACL_FORMAT_NHWC, ACL_FORMAT_NDHWC}) {
    if (tensors.grad_out.tensor.format == format) CheckFormat(tensors.grad_out, ACL_FORMAT_ND);
  }
}

void CheckChannels(const OptionalArgument& argument, int64_t channels) {
  if (!argument) return;
  CheckRank(*argument, {1});
  CheckDim(*argument, 0, "gradOut's dim 1", channels);
}

void CheckShapes(const Tensors& tensors, bool may_lack_batch) {
  CheckRank(tensors.grad_out, {2, 3, 4, 5, 6, 7, 8});
  CheckSameShape(tensors.input, tensors.grad_out);
  if (tensors.grad_input) CheckSameShape(*tensors.grad_input, tensors.grad_out);
  const int64_t channels = tensors.grad_out.tensor.view_dims[1];
  for (const OptionalArgument* given : {&tensors.weight, &tensors.running_mean, &tensors.running_var}) {
    CheckChannels(*given, channels);
  }
  // Only the 950 checks these; other devices read and write beyond a shorter one.
  for (const OptionalArgument* given : {&tensors.save_mean, &tensors.save_invstd}) {
    if (!may_lack_batch || !*given || !(*given)->tensor.empty()) CheckChannels(*given, channels);
  }
  for (const OptionalArgument* given : {&tensors.grad_weight, &tensors.grad_bias}) CheckChannels(*given, channels);
}

}  // namespace

Plan PlanBatchNormBackward(const BatchNormBackwardArguments& arguments) {
  const Product product = CurrentProduct();
  CheckProduct(kProducts);
  const Argument grad_out{"gradOut", arguments.grad_out};
  const Argument input{"input", arguments.input};
  Plan plan;
  if (grad_out.tensor.empty() || input.tensor.empty()) return plan;

  // Devices other than the 950 refuse only an empty mask, and read behind a short one.
  const std::vector<bool>& mask =
      OutputMask(arguments.output_mask, 3, {ACLNN_ERR_PARAM_NULLPTR, ACLNN_ERR_PARAM_NULLPTR});
  const Tensors tensors{
      grad_out,
      input,
      IfGiven("weight", arguments.weight),
      IfGiven("runningMean", arguments.running_mean),
      IfGiven("runningVar", arguments.running_var),
      IfGiven("saveMean", arguments.save_mean),
      IfGiven("saveInvstd", arguments.save_invstd),
      IfWanted(mask, 0, "gradInput", arguments.grad_input),
      IfWanted(mask, 1, "gradWeight", arguments.grad_weight),
      IfWanted(mask, 2, "gradBias", arguments.grad_bias),
  };
  CheckDataTypes(tensors, product);
  CheckFormats(tensors, product);
  CheckShapes(tensors, product == Product::k950 && !arguments.training);
  CheckNoNegativeDim(grad_out);
  CheckAddressable(grad_out);
  CheckAddressable(input);
  for (const OptionalArgument* given :
       {&tensors.weight, &tensors.running_mean, &tensors.running_var, &tensors.save_mean, &tensors.save_invstd,
        &tensors.grad_input, &tensors.grad_weight, &tensors.grad_bias}) {
    if (*given) CheckAddressable(**given);
  }
  if (!tensors.grad_input && !tensors.grad_weight && !tensors.grad_bias) return plan;

  const Dims& dims = grad_out.tensor.view_dims;
  (void)ElementCount(dims);
  Normalisation norm{};
  norm.samples = dims[0];
  norm.channels = dims[1];
  norm.cells = ElementCount(Dims(dims.begin() + 2, dims.end()));
  norm.is_constant = !arguments.training;
  norm.has_variance = !arguments.training || product != Product::k950;
  norm.eps = static_cast<float>(arguments.eps);
  NormalisationOperands operands(plan);
  norm.grad_out = operands.AddInput(grad_out);
  if (tensors.grad_weight || (tensors.grad_input && arguments.training)) norm.input = operands.AddInput(input);
  norm.weight = operands.AddInput(tensors.weight);
  norm.mean = operands.AddInput(arguments.training ? tensors.save_mean : tensors.running_mean);
  norm.rstd = operands.AddInput(arguments.training ? tensors.save_invstd : tensors.running_var);
  norm.grad_input = operands.AddOutput(tensors.grad_input);
  norm.grad_weight = operands.AddOutput(tensors.grad_weight);
  norm.grad_bias = operands.AddOutput(tensors.grad_bias);
  SetNormalisation(plan, norm);
  return plan;
}

}  // namespace acl_host
