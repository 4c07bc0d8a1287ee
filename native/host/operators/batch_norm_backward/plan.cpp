// aclnnBatchNormBackward: its checks and its plan.
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "computation.h"
#include "device/runtime.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr size_t kOutputs = 3;

using Given = std::optional<Argument>;

Given IfGiven(const char* name, const aclTensor* tensor) {
  return tensor == nullptr ? Given{} : Given{Argument{name, tensor}};
}

struct Tensors {
  Argument grad_out;
  Argument input;
  Given weight;
  Given running_mean;
  Given running_var;
  Given save_mean;
  Given save_invstd;
  Given grad_input;
  Given grad_weight;
  Given grad_bias;
};

// Everything that is wrong here has the code of a null pointer.
[[noreturn]] void FailNull(const std::string& message) { throw OperatorError(ACLNN_ERR_PARAM_NULLPTR, message); }

Given IfWanted(const std::vector<bool>& mask, size_t output, const char* name, const aclTensor* tensor) {
  return mask[output] ? Given{Argument{name, tensor}} : Given{};
}

// Devices other than the 950 refuse only an empty mask, and read behind a short one.
const std::vector<bool>& CheckMask(const aclBoolArray* mask) {
  const std::vector<bool>& values = Required<OperatorError>(mask, "outputMask").values;
  if (values.size() != kOutputs) {
    FailNull("outputMask: expected 3 values, one for each output, got " + std::to_string(values.size()));
  }
  return values;
}

bool IsAscend950(const Product& product) { return std::strcmp(product.name, "950") == 0; }

void CheckSameOrFloat(const Given& argument, const Argument& reference) {
  if (argument && argument->tensor.data_type != ACL_FLOAT) CheckSameDataType(*argument, reference);
}

void CheckPair(const Given& first, const Given& second) {
  if (first && second) CheckSameDataType(*second, *first);
}

void CheckDataTypes(const Tensors& tensors, const Product& product) {
  const std::vector<aclDataType> allowed = FloatTypes(product);
  CheckDataType(tensors.grad_out, allowed);
  CheckSameDataType(tensors.input, tensors.grad_out);
  for (const Given* given : {&tensors.grad_input, &tensors.grad_weight, &tensors.grad_bias, &tensors.weight,
                             &tensors.running_mean, &tensors.running_var, &tensors.save_mean, &tensors.save_invstd}) {
    if (*given) CheckDataType(**given, allowed);
  }
  if (!IsAscend950(product)) return;
  for (const Given* given :
       {&tensors.weight, &tensors.running_mean, &tensors.running_var, &tensors.save_mean, &tensors.save_invstd}) {
    CheckSameOrFloat(*given, tensors.grad_out);
  }
  CheckPair(tensors.running_mean, tensors.running_var);
  CheckPair(tensors.save_mean, tensors.save_invstd);
  if (tensors.grad_input) CheckSameDataType(*tensors.grad_input, tensors.grad_out);
  if (tensors.weight) CheckSameOrFloat(tensors.grad_weight, *tensors.weight);
  CheckPair(tensors.grad_weight, tensors.grad_bias);
}

void CheckFormats(const Tensors& tensors, const Product& product) {
  CheckSameFormat(tensors.input, tensors.grad_out);
  if (tensors.grad_input) CheckSameFormat(*tensors.grad_input, tensors.grad_out);
  CheckNotPrivateFormat(tensors.grad_out);
  if (IsAscend950(product) && tensors.grad_out.tensor.rank() == 5) CheckFormat(tensors.grad_out, ACL_FORMAT_NCDHW);
  // The 950 also takes formats whose last dim is the channel, which this library does not compute.
  for (const aclFormat format : {ACL_FORMAT_NHWC, ACL_FORMAT_NDHWC}) {
    if (tensors.grad_out.tensor.format == format) CheckFormat(tensors.grad_out, ACL_FORMAT_ND);
  }
}

void CheckChannels(const Given& argument, int64_t channels) {
  if (!argument) return;
  CheckRank(*argument, {1});
  CheckDim(*argument, 0, "gradOut's dim 1", channels);
}

void CheckShapes(const Tensors& tensors, bool may_lack_batch) {
  CheckRank(tensors.grad_out, {2, 3, 4, 5, 6, 7, 8});
  CheckSameShape(tensors.input, tensors.grad_out);
  if (tensors.grad_input) CheckSameShape(*tensors.grad_input, tensors.grad_out);
  const int64_t channels = tensors.grad_out.tensor.view_dims[1];
  for (const Given* given : {&tensors.weight, &tensors.running_mean, &tensors.running_var}) {
    CheckChannels(*given, channels);
  }
  // Only the 950 checks these; other devices read and write beyond a shorter one.
  for (const Given* given : {&tensors.save_mean, &tensors.save_invstd}) {
    if (!may_lack_batch || !*given || !(*given)->tensor.empty()) CheckChannels(*given, channels);
  }
  for (const Given* given : {&tensors.grad_weight, &tensors.grad_bias}) CheckChannels(*given, channels);
}

// Adds the input if it is given.
ChannelInput AddChannels(Plan& plan, int& inputs, const Given& argument, float absent) {
  if (!argument) return {-1, ACL_FLOAT, absent};
  plan.AddInput(argument->tensor);
  return {inputs++, argument->tensor.data_type, absent};
}

NormOutput AddWanted(Plan& plan, int& outputs, const Given& argument) {
  if (!argument) return {};
  plan.AddOutput(argument->tensor);
  return {outputs++, argument->tensor.data_type};
}

uint64_t ScratchBytes(const BatchNorm& norm) {
  uint64_t part_bytes = 0;
  uint64_t bytes = 0;
  const auto parts = static_cast<uint64_t>(norm.parts());
  if (__builtin_mul_overflow(parts, kNormPartBytes, &part_bytes) ||
      __builtin_add_overflow(part_bytes, kNormChannelBytes, &part_bytes) ||
      __builtin_mul_overflow(static_cast<uint64_t>(norm.channels), part_bytes, &bytes) ||
      __builtin_add_overflow(bytes, kNormAlignment, &bytes)) {
    FailInvalid("gradOut: there is no workspace for " + std::to_string(norm.channels) + " channels");
  }
  return bytes;
}

}  // namespace

Plan PlanBatchNormBackward(const BatchNormBackwardArguments& arguments) {
  const Product& product = CurrentProduct();
  CheckProduct(product, {"910A", "910B", "910_93", "950"});
  const Argument grad_out{"gradOut", arguments.grad_out};
  const Argument input{"input", arguments.input};
  Plan plan;
  if (grad_out.tensor.empty() || input.tensor.empty()) return plan;

  const std::vector<bool>& mask = CheckMask(arguments.output_mask);
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
  CheckShapes(tensors, IsAscend950(product) && !arguments.training);
  CheckNoNegativeDim(grad_out);
  CheckAddressable(grad_out);
  CheckAddressable(input);
  for (const Given* given : {&tensors.weight, &tensors.running_mean, &tensors.running_var, &tensors.save_mean,
                             &tensors.save_invstd, &tensors.grad_input, &tensors.grad_weight, &tensors.grad_bias}) {
    if (*given) CheckAddressable(**given);
  }
  if (!tensors.grad_input && !tensors.grad_weight && !tensors.grad_bias) return plan;

  const Dims& dims = grad_out.tensor.view_dims;
  (void)ElementCount(dims);
  BatchNorm norm{};
  norm.samples = dims[0];
  norm.channels = dims[1];
  norm.cells = ElementCount(Dims(dims.begin() + 2, dims.end()));
  norm.threads = Runtime::Current()->config().threads;
  norm.type = grad_out.tensor.data_type;
  norm.training = arguments.training;
  norm.spread_is_variance = !arguments.training || !IsAscend950(product);
  norm.eps = static_cast<float>(arguments.eps);
  int outputs = 0;
  norm.grad_input = AddWanted(plan, outputs, tensors.grad_input);
  norm.grad_weight = AddWanted(plan, outputs, tensors.grad_weight);
  norm.grad_bias = AddWanted(plan, outputs, tensors.grad_bias);
  int inputs = 1;
  plan.AddInput(grad_out.tensor);
  if (norm.reads_input()) {
    plan.AddInput(input.tensor);
    ++inputs;
  }
  norm.weight = AddChannels(plan, inputs, tensors.weight, 1);
  norm.mean = AddChannels(plan, inputs, norm.training ? tensors.save_mean : tensors.running_mean, 0);
  norm.spread = AddChannels(plan, inputs, norm.training ? tensors.save_invstd : tensors.running_var, 1);
  if (!norm.has_many_blocks()) plan.AddScratch(ScratchBytes(norm));
  plan.PromiseTimeOfBytes();
  plan.SetCompute(
      [norm, run = AtVectorLevel<BatchNormBackward>()](const KernelArguments& launch) { run(norm, launch); });
  return plan;
}

}  // namespace acl_host
