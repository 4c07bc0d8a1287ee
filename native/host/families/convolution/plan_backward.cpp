// aclnnConvolutionBackward: its plan. The checks are in CANN's order and have CANN's codes.
#include <algorithm>
#include <utility>
#include <vector>

#include "device/runtime.h"
#include "families/convolution/checks_backward.h"
#include "families/convolution/geometry.h"
#include "families/convolution/kernels.h"
#include "families/reductions/computation.h"
#include "operator_plans.h"
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

// The one sum of a tensor, over all axes but the channels.
Computation BiasOf(const aclTensor& grad_output) {
  std::vector<bool> is_added(grad_output.view_dims.size(), true);
  is_added[1] = false;
  const Reduction reduction = ReductionOf(grad_output, is_added, grad_output.data_type);
  return {kPartBytes,
          [run = AtVectorLevel<ReduceSum>(), reduction](const KernelArguments& launch) { run(reduction, launch); }};
}

Plan MakePlan(const ConvolvedArguments& given, const ConvolutionOutputs& outputs) {
  Plan plan;
  if (outputs.input() == nullptr && outputs.weight() == nullptr && outputs.bias() == nullptr) return plan;
  for (const Argument* each : {&given.input, &given.weight}) CheckAddressable(*each);
  const Convolution convolution = ConvolutionOf(given);
  const int64_t threads = Runtime::Current()->config().threads;
  double products = 0;
  Steps steps(plan);
  const size_t gradient = steps.AddInput(given.result);
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
    steps.Add({gradient}, *output, BiasOf(given.result.tensor));
  }
  steps.Finish();
  plan.PromiseTimeOfProducts(products);
  return plan;
}

}  // namespace

Plan PlanConvolutionBackward(const ConvolutionBackwardArguments& arguments) {
  CheckProduct(kAllProducts);
  const ConvolvedArguments given{{"gradOutput", arguments.grad_output},
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
