#include "families/convolution/kernels.h"

#include "families/convolution/depthwise.h"

namespace acl_host {
namespace {

template <template <VectorLevel> class Kernel, typename... Given>
Plan::Compute ComputeOf(const Given&... given) {
  return [run = AtVectorLevel<Kernel>(), given...](const KernelArguments& launch) { run(given..., launch); };
}

template <template <VectorLevel> class Kernel>
Computation DepthwiseWith(const Convolution& convolution, const Depthwise& depthwise) {
  return {depthwise.scratch_bytes(convolution.groups * convolution.small_channels),
          ComputeOf<Kernel>(convolution, depthwise)};
}

}  // namespace

Computation BigOf(const Convolution& convolution, int64_t threads) {
  if (const auto depthwise = DepthwiseOfBig(convolution, threads); depthwise) {
    return DepthwiseWith<DepthwiseSumsOfBig>(convolution, *depthwise);
  }
  const TensorBlocks blocks = BlocksOfBig(convolution, threads);
  return {blocks.bytes(), ComputeOf<SumsOfBig>(convolution, blocks)};
}

Computation SmallOf(const Convolution& convolution, int64_t threads) {
  if (const auto depthwise = DepthwiseOfSmall(convolution, threads); depthwise) {
    return DepthwiseWith<DepthwiseSumsOfSmall>(convolution, *depthwise);
  }
  const TensorBlocks blocks = BlocksOfSmall(convolution, threads);
  return {blocks.bytes(), ComputeOf<SumsOfSmall>(convolution, blocks)};
}

Computation WeightOf(const Convolution& convolution, int64_t threads) {
  if (const auto depthwise = DepthwiseOfWeight(convolution, threads); depthwise) {
    return DepthwiseWith<DepthwiseSumsOfWeight>(convolution, *depthwise);
  }
  const WeightBlocks blocks = BlocksOfWeight(convolution, threads);
  return {blocks.bytes(), ComputeOf<SumsOfWeight>(convolution, blocks)};
}

double ProductsOf(const Convolution& convolution) {
  double products = static_cast<double>(convolution.images) * static_cast<double>(convolution.groups) *
                    static_cast<double>(convolution.small_channels) * static_cast<double>(convolution.big_channels);
  for (const ConvolvedAxis& axis : convolution.axes) {
    products *= static_cast<double>(axis.small) * static_cast<double>(axis.kernel);
  }
  return products;
}

}  // namespace acl_host
