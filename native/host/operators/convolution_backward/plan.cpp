// aclnnConvolutionBackward: its checks, in CANN's order and with CANN's codes, and its plan.
#include <algorithm>
#include <string>
#include <vector>

#include "device/runtime.h"
#include "operator_plans.h"
#include "operators/convolution_backward/computation.h"
#include "operators/convolution_backward/depthwise.h"
#include "operators/convolution_backward/geometry.h"
#include "operators/reduce_sum/computation.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

// The outputs that the caller gave, and which of them are wanted.
struct Outputs {
  OptionalArgument grad_input;
  OptionalArgument grad_weight;
  OptionalArgument grad_bias;
  const std::vector<bool>& mask;

  // Null unless it is wanted.
  [[nodiscard]] const Argument* input() const { return mask[0] ? &*grad_input : nullptr; }
  [[nodiscard]] const Argument* weight() const { return mask[1] ? &*grad_weight : nullptr; }
  [[nodiscard]] const Argument* bias() const { return mask[2] ? &*grad_bias : nullptr; }
};

OptionalArgument OutputOf(const std::vector<bool>& mask, size_t output, const char* name, const aclTensor* tensor) {
  return mask[output] ? OptionalArgument{Argument{name, tensor}} : IfGiven(name, tensor);
}

void CheckDataTypes(const ConvolutionArguments& given, const Outputs& outputs) {
  const std::vector<aclDataType> allowed = FloatTypes();
  for (const Argument* each : {&given.grad_output, &given.input, &given.weight}) CheckDataType(*each, allowed);
  for (const OptionalArgument* each : {&outputs.grad_input, &outputs.grad_weight, &outputs.grad_bias}) {
    if (*each) CheckDataType(**each, allowed);
  }
  // Devices other than the 950 convert mixed types.
  for (const Argument* each : {&given.input, &given.weight}) CheckSameDataType(*each, given.grad_output);
  for (const Argument* each : {outputs.input(), outputs.weight(), outputs.bias()}) {
    if (each != nullptr) CheckSameDataType(*each, given.grad_output);
  }
}

void CheckFormatOfRank(const Argument& argument) {
  CheckRank(argument, {3, 4, 5});
  const int64_t rank = argument.tensor.rank();
  if (rank == 3 && argument.tensor.format == ACL_FORMAT_ND) return;
  CheckFormat(argument, rank == 3 ? ACL_FORMAT_NCL : rank == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_NCDHW);
}

void CheckFormats(const ConvolutionArguments& given, const Outputs& outputs) {
  for (const Argument* each : {&given.grad_output, &given.input, &given.weight, outputs.input(), outputs.weight()}) {
    if (each != nullptr) CheckFormatOfRank(*each);
  }
  if (outputs.bias() == nullptr) return;
  if (HasBf16(CurrentProduct()) && !given.transposed) CheckFormat(*outputs.bias(), ACL_FORMAT_ND);
  CheckNotPrivateFormat(*outputs.bias());
}

void CheckEachAtLeast0(const IntArrayArgument& argument) {
  const Dims& values = argument.values;
  if (std::all_of(values.begin(), values.end(), [](int64_t value) { return value >= 0; })) return;
  FailInvalid(std::string(argument.name) + ": expected values of at least 0, got " + DimsText(values));
}

// CANN bounds outputPadding only along three axes, and then by the stride alone.
void CheckOutputPadding(const ConvolutionArguments& given) {
  const Dims& values = given.output_padding.values;
  for (size_t axis = 0; axis < std::min(values.size(), given.stride.values.size()); ++axis) {
    const int64_t dilation = axis < given.dilation.values.size() ? given.dilation.values[axis] : 1;
    const int64_t stride = given.stride.values[axis];
    if (values[axis] < (given.spatial_axes() == 3 ? stride : std::max(stride, dilation))) continue;
    FailInvalid("outputPadding: expected values below stride, " + DimsText(given.stride.values) + ", got " +
                DimsText(values));
  }
}

void CheckNumbers(const ConvolutionArguments& given) {
  CheckEachPositive(given.stride);
  CheckEachAtLeast0(given.padding);
  CheckEachPositive(given.dilation);
  const Dims& values = given.output_padding.values;
  if (given.transposed) {
    CheckEachAtLeast0(given.output_padding);
    CheckOutputPadding(given);
  } else if (std::any_of(values.begin(), values.end(), [](int64_t value) { return value != 0; })) {
    FailInvalid("outputPadding: expected zeros unless transposed, got " + DimsText(values));
  }
  if (given.groups < 1) FailInvalid("groups: expected a value above 0, got " + std::to_string(given.groups));
}

void CheckLengths(const ConvolutionArguments& given) {
  const size_t axes = given.spatial_axes();
  const size_t with_both_sides = axes == 2 ? 4 : axes;
  CheckLength(given.stride, {axes});
  CheckLength(given.dilation, {axes});
  CheckLength(given.padding, {axes, with_both_sides});
  // Nobody says what four values mean, unless they are zeros.
  CheckLength(given.output_padding, {axes, given.transposed ? axes : with_both_sides});
}

// The number of grad_output's channels that the weight leads to.
int64_t OutputChannels(const ConvolutionArguments& given) {
  const Dims& weight = given.weight.tensor.view_dims;
  return given.transposed ? ElementCount({weight[1], given.groups}) : weight[0];
}

void CheckChannels(const ConvolutionArguments& given) {
  const Dims& weight = given.weight.tensor.view_dims;
  CheckDim(given.weight, 0, ("the channels of " + std::string(given.small().name)).c_str(),
           given.small().tensor.view_dims[1]);
  CheckDim(given.big(), 1, "dim 1 of weight times groups", ElementCount({weight[1], given.groups}));
  if (weight[0] % given.groups != 0) {
    FailShape(given.weight, "dim 0 to be a multiple of groups, " + std::to_string(given.groups));
  }
}

void CheckOutputs(const ConvolutionArguments& given, const Outputs& outputs, int64_t channels) {
  if (outputs.input() != nullptr) CheckSameShape(*outputs.input(), given.input);
  if (outputs.weight() != nullptr) CheckSameShape(*outputs.weight(), given.weight);
  if (outputs.bias() != nullptr) CheckShape(*outputs.bias(), "the channels of gradOutput", {channels});
}

void CheckBiasSizes(const aclIntArray* bias_sizes, int64_t channels) {
  if (bias_sizes == nullptr || bias_sizes->values == Dims{channels}) return;
  FailInvalid("biasSizes: expected " + DimsText({channels}) + ", got " + DimsText(bias_sizes->values));
}

void CheckShapes(const ConvolutionArguments& given, const Outputs& outputs, const aclIntArray* bias_sizes) {
  const int64_t channels = given.grad_output.tensor.view_dims[1];
  for (const Argument* each : {&given.input, &given.weight}) CheckSameRank(*each, given.grad_output);
  for (const Argument* each : {&given.grad_output, &given.input, &given.weight}) {
    CheckNoNegativeDim(*each);
    CheckNoEmptyDim(*each, 0);
  }
  CheckOutputs(given, outputs, channels);
  CheckLengths(given);
  CheckChannels(given);
  // Devices do not check the batch, the sizes along one or two axes, and biasSizes, and answer wrongly.
  CheckSizes(given);
  CheckDim(given.grad_output, 0, "that of input", given.input.tensor.view_dims[0]);
  if (outputs.bias() != nullptr) CheckBiasSizes(bias_sizes, channels);
}

void CheckRoute(const ConvolutionArguments& given, const Outputs& outputs, int8_t cube_math_type) {
  if (given.spatial_axes() != 3) return;
  const Product product = CurrentProduct();
  if (!HasBf16(product)) FailShape(given.input, "one or two spatial axes on this product");
  const bool is_half_of_float = cube_math_type == 2 && given.input.tensor.data_type == ACL_FLOAT;
  if (product != Product::k950 && is_half_of_float && given.groups > 1 && outputs.weight() != nullptr) {
    FailInvalid("cubeMathType: expected another value than 2 for gradWeight of FLOAT along three axes in groups");
  }
}

// What an empty input or weight leads to: nothing, and zeros.
Plan MakeEmptyPlan(const ConvolutionArguments& given, const Outputs& outputs, const aclIntArray* bias_sizes) {
  for (const Argument* each : {&given.input, &given.weight}) {
    if (!HasBf16(CurrentProduct())) CheckNoEmptyDim(*each, 0);
    CheckSameRank(*each, given.grad_output);
    CheckNoNegativeDim(*each);
  }
  CheckNoNegativeDim(given.grad_output);
  const int64_t channels = given.transposed ? OutputChannels(given) : given.grad_output.tensor.view_dims[1];
  if (outputs.bias() != nullptr) {
    if (bias_sizes == nullptr) FailInvalid("biasSizes: expected " + DimsText({channels}) + ", got null");
    CheckBiasSizes(bias_sizes, channels);
  }
  const Dims& input = given.input.tensor.view_dims;
  const Dims& weight = given.weight.tensor.view_dims;
  if (outputs.input() != nullptr && input[0] != 0 && input[1] != 0) {
    FailShape(given.input, "no batch or no channels, or no empty tensor at all");
  }
  CheckLengths(given);
  CheckOutputs(given, outputs, channels);
  CheckChannels(given);
  if (given.transposed && weight[0] == 0) FailShape(given.weight, "dim 0 above 0");
  CheckNoEmptyDim(given.weight, 2);
  CheckDim(given.grad_output, 0, "that of input", input[0]);
  CheckDim(given.grad_output, 1, "the channels of the forward pass", OutputChannels(given));
  CheckSizes(given);

  Plan plan;
  for (const Argument* each : {outputs.weight(), outputs.bias()}) {
    if (each == nullptr || each->tensor.empty()) continue;
    CheckAddressable(*each);
    plan.AddOutput(each->tensor);
    plan.SetZeros();
  }
  plan.PromiseTimeOfBytes();
  return plan;
}

struct Computation {
  uint64_t scratch_bytes;
  Plan::Compute run;
};

// The computations of a plan one after the other, each with some of its inputs, one output and all scratch.
class Steps {
 public:
  explicit Steps(Plan& plan) : plan_(plan) {}

  size_t AddInput(const Argument& argument) {
    CheckAddressable(argument);
    plan_.AddStridedInput(argument.tensor);
    return inputs_++;
  }

  void Add(std::vector<size_t> inputs, const Argument& output, Computation computation) {
    CheckAddressable(output);
    plan_.AddOutput(output.tensor);
    scratch_bytes_ = std::max(scratch_bytes_, computation.scratch_bytes);
    steps_.push_back({std::move(inputs), std::move(computation.run)});
  }

  void Finish() {
    plan_.AddScratch(scratch_bytes_);
    plan_.SetCompute([steps = steps_](const KernelArguments& launch) {
      for (size_t i = 0; i < steps.size(); ++i) {
        KernelArguments arguments{launch.pool, {}, {launch.outputs[i]}, launch.scratch};
        for (const size_t input : steps[i].inputs) arguments.inputs.push_back(launch.inputs[input]);
        steps[i].run(arguments);
      }
    });
  }

 private:
  struct Step {
    std::vector<size_t> inputs;
    Plan::Compute run;
  };

  Plan& plan_;
  std::vector<Step> steps_;
  size_t inputs_ = 0;
  uint64_t scratch_bytes_ = 0;
};

template <template <VectorLevel> class Kernel, typename... Given>
Plan::Compute ComputeOf(const Given&... given) {
  return [run = AtVectorLevel<Kernel>(), given...](const KernelArguments& launch) { run(given..., launch); };
}

template <template <VectorLevel> class Kernel>
Computation DepthwiseWith(const Convolution& convolution, const Depthwise& depthwise) {
  return {depthwise.scratch_bytes(convolution.groups * convolution.small_channels),
          ComputeOf<Kernel>(convolution, depthwise)};
}

Computation BigOf(const Convolution& convolution, int64_t threads) {
  if (const auto depthwise = DepthwiseOfBig(convolution, threads); depthwise) {
    return DepthwiseWith<DepthwiseGradientOfBig>(convolution, *depthwise);
  }
  const TensorBlocks blocks = BlocksOfBig(convolution, threads);
  return {blocks.bytes(), ComputeOf<GradientOfBig>(convolution, blocks)};
}

Computation SmallOf(const Convolution& convolution, int64_t threads) {
  if (const auto depthwise = DepthwiseOfSmall(convolution, threads); depthwise) {
    return DepthwiseWith<DepthwiseGradientOfSmall>(convolution, *depthwise);
  }
  const TensorBlocks blocks = BlocksOfSmall(convolution, threads);
  return {blocks.bytes(), ComputeOf<GradientOfSmall>(convolution, blocks)};
}

Computation WeightOf(const Convolution& convolution, int64_t threads) {
  if (const auto depthwise = DepthwiseOfWeight(convolution, threads); depthwise) {
    return DepthwiseWith<DepthwiseGradientOfWeight>(convolution, *depthwise);
  }
  const WeightBlocks blocks = BlocksOfWeight(convolution, threads);
  return {blocks.bytes(), ComputeOf<GradientOfWeight>(convolution, blocks)};
}

// The one sum of a tensor, over all axes but the channels.
Computation BiasOf(const aclTensor& grad_output) {
  std::vector<bool> is_added(grad_output.view_dims.size(), true);
  is_added[1] = false;
  return {kPartBytes, ComputeOf<ReduceSum>(SummationOf(grad_output, is_added, grad_output.data_type))};
}

// Products of one gradient.
double ProductsOf(const Convolution& convolution) {
  double products = static_cast<double>(convolution.images) * static_cast<double>(convolution.groups) *
                    static_cast<double>(convolution.small_channels) * static_cast<double>(convolution.big_channels);
  for (const ConvolvedAxis& axis : convolution.axes) {
    products *= static_cast<double>(axis.small) * static_cast<double>(axis.kernel);
  }
  return products;
}

Plan MakePlan(const ConvolutionArguments& given, const Outputs& outputs) {
  Plan plan;
  if (outputs.input() == nullptr && outputs.weight() == nullptr && outputs.bias() == nullptr) return plan;
  for (const Argument* each : {&given.input, &given.weight}) CheckAddressable(*each);
  const Convolution convolution = ConvolutionOf(given);
  const int64_t threads = Runtime::Current()->config().threads;
  double products = 0;
  Steps steps(plan);
  const size_t gradient = steps.AddInput(given.grad_output);
  if (const Argument* const output = outputs.input(); output != nullptr) {
    Convolution one = convolution;
    (given.transposed ? one.small : one.big) = RowMajorStridesOf(output->tensor);
    const std::vector inputs = {gradient, steps.AddInput(given.weight)};
    steps.Add(inputs, *output, given.transposed ? SmallOf(one, threads) : BigOf(one, threads));
    products += ProductsOf(one);
  }
  if (const Argument* const output = outputs.weight(); output != nullptr) {
    Convolution one = convolution;
    one.weight = RowMajorStridesOf(output->tensor);
    const size_t input = steps.AddInput(given.input);
    steps.Add(given.transposed ? std::vector{input, gradient} : std::vector{gradient, input}, *output,
              WeightOf(one, threads));
    products += ProductsOf(one);
  }
  if (const Argument* const output = outputs.bias(); output != nullptr) {
    steps.Add({gradient}, *output, BiasOf(given.grad_output.tensor));
  }
  steps.Finish();
  plan.PromiseTimeOfProducts(products);
  return plan;
}

}  // namespace

Plan PlanConvolutionBackward(const ConvolutionBackwardArguments& arguments) {
  CheckProduct(kAllProducts);
  const ConvolutionArguments given{{"gradOutput", arguments.grad_output},
                                   {"input", arguments.input},
                                   {"weight", arguments.weight},
                                   {"stride", arguments.stride},
                                   {"padding", arguments.padding},
                                   {"dilation", arguments.dilation},
                                   {"outputPadding", arguments.output_padding},
                                   arguments.transposed,
                                   arguments.groups};
  const std::vector<bool>& mask =
      OutputMask(arguments.output_mask, 3, {ACLNN_ERR_PARAM_NULLPTR, ACLNN_ERR_PARAM_NULLPTR});
  const Outputs outputs{OutputOf(mask, 0, "gradInput", arguments.grad_input),
                        OutputOf(mask, 1, "gradWeight", arguments.grad_weight),
                        OutputOf(mask, 2, "gradBias", arguments.grad_bias), mask};
  CheckDataTypes(given, outputs);
  CheckFormats(given, outputs);
  CheckNumbers(given);
  CheckCubeMathType(arguments.cube_math_type, given.input.tensor.data_type == ACL_FLOAT);
  if (given.input.tensor.empty() || given.weight.tensor.empty()) {
    return MakeEmptyPlan(given, outputs, arguments.bias_sizes);
  }
  CheckShapes(given, outputs, arguments.bias_sizes);
  CheckRoute(given, outputs, arguments.cube_math_type);
  return MakePlan(given, outputs);
}

}  // namespace acl_host
