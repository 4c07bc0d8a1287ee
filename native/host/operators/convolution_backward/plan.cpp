// aclnnConvolutionBackward: its plan. The checks are in CANN's order and have CANN's codes.
#include <algorithm>
#include <utility>
#include <vector>

#include "device/runtime.h"
#include "operator_plans.h"
#include "operators/convolution_backward/checks.h"
#include "operators/convolution_backward/computation.h"
#include "operators/convolution_backward/depthwise.h"
#include "operators/convolution_backward/geometry.h"
#include "operators/reduce_sum/computation.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

OptionalArgument OutputOf(const std::vector<bool>& mask, size_t output, const char* name, const aclTensor* tensor) {
  return mask[output] ? OptionalArgument{Argument{name, tensor}} : IfGiven(name, tensor);
}

// Nothing, and zeros.
Plan MakeEmptyPlan(const ConvolutionOutputs& outputs) {
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

Plan MakePlan(const ConvolutionArguments& given, const ConvolutionOutputs& outputs) {
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
  const ConvolutionOutputs outputs{OutputOf(mask, 0, "gradInput", arguments.grad_input),
                                   OutputOf(mask, 1, "gradWeight", arguments.grad_weight),
                                   OutputOf(mask, 2, "gradBias", arguments.grad_bias), mask};
  CheckDataTypes(given, outputs);
  CheckFormats(given, outputs);
  CheckNumbers(given);
  CheckCubeMathType(arguments.cube_math_type, given.input.tensor.data_type == ACL_FLOAT);
  if (given.input.tensor.empty() || given.weight.tensor.empty()) {
    CheckEmpty(given, outputs, arguments.bias_sizes);
    return MakeEmptyPlan(outputs);
  }
  CheckShapes(given, outputs, arguments.bias_sizes);
  CheckRoute(given, outputs, arguments.cube_math_type);
  return MakePlan(given, outputs);
}

}  // namespace acl_host
