// aclnnConvolution: its plan.
#include "device/runtime.h"
#include "families/convolution/checks.h"
#include "families/convolution/kernels.h"
#include "operator_plans.h"

namespace acl_host {
namespace {

constexpr Products kNot910A = {Product::k910B, Product::k910_93, Product::k310P, Product::k950};

Plan MakePlan(const ConvolvedArguments& given, const OptionalArgument& bias) {
  if (given.input.tensor.empty() || given.weight.tensor.empty() || given.result.tensor.empty()) return {};
  for (const Argument* each : {&given.input, &given.weight, &given.result}) CheckAddressable(*each);
  Plan plan;
  plan.AddStridedInput(given.input.tensor);
  plan.AddStridedInput(given.weight.tensor);
  plan.AddOutput(given.result.tensor);
  Convolution convolution = ConvolutionOf(given);
  (given.transposed ? convolution.big : convolution.small) = RowMajorStridesOf(given.result.tensor);
  const int64_t threads = Runtime::Current()->config().threads;
  const Computation computation = given.transposed ? BigOf(convolution, threads) : SmallOf(convolution, threads);
  plan.AddScratch(computation.scratch_bytes);
  if (bias) {
    CheckAddressable(*bias);
    plan.AddInput(bias->tensor);
    plan.AddScratch(BiasBytes(given.result.tensor.view_dims[1]));
  }
  plan.PromiseTimeOfProducts(ProductsOf(convolution));
  plan.SetCompute(computation.run);
  return plan;
}

}  // namespace

Plan PlanConvolution(const ConvolutionArguments& arguments) {
  CheckProduct(kNot910A);
  const Argument input{"input", arguments.input};
  const Argument weight{"weight", arguments.weight};
  const IntArrayArgument stride{"stride", arguments.stride};
  const IntArrayArgument padding{"padding", arguments.padding};
  const IntArrayArgument dilation{"dilation", arguments.dilation};
  const Argument output{"output", arguments.output};
  // A convolution that is not transposed has no use for it.
  const aclIntArray nothing{};
  const aclIntArray* const more = arguments.transposed ? arguments.output_padding : &nothing;
  const ConvolvedArguments given{
      output,          input, weight, stride, padding, dilation, {"outputPadding", more}, arguments.transposed,
      arguments.groups};
  const OptionalArgument bias = IfGiven("bias", arguments.bias);
  CheckConvolution(given, bias, arguments.cube_math_type);
  return MakePlan(given, bias);
}

}  // namespace acl_host
