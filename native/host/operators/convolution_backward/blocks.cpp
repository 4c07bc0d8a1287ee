
#include <algorithm>

#include "families/gemm/computation.h"
#include "operators/convolution_backward/computation.h"
#include "operators/convolution_backward/gather.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
// Multiples of the rows and columns of every vector level's tiles.
constexpr int64_t kRowStep = 24;
constexpr int64_t kMoreColumns = 32;

// Weights up to this size are packed once, if some columns share them.
constexpr double kSharedWeightBytes = 10 << 20;
constexpr int64_t kLeastSharers = 3;
constexpr int64_t kMostChannels = 1024;
constexpr int64_t kUnitsOfThread = 4;

// Sums of a unit, of which many units together take 6 MiB.
constexpr int64_t kRowsOfUnit = 512;
constexpr int64_t kChannelsOfUnit = 256;
constexpr int64_t kHeldBytes = int64_t{6} << 20;
constexpr int64_t kLeastUnits = 16;
constexpr int64_t kLeastPasses = 4;

int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
int64_t CeilOf(int64_t count, int64_t of) { return (count + of - 1) / of; }

TensorBlocks TensorBlocksOf(const Gather& gather, int64_t threads) {
  const int64_t depth = std::min(gather.rows(), kDepthOfSum);
  const int64_t columns = std::min(RoundUp(gather.columns(), kMoreColumns), TensorBlocks::kColumns);
  const int64_t sharers = CeilOf(gather.columns(), TensorBlocks::kColumns);
  TensorBlocks blocks{};
  const double weight_bytes = static_cast<double>(gather.groups) * static_cast<double>(gather.results) *
                              static_cast<double>(gather.rows()) * kFloatBytes;
  if (weight_bytes <= kSharedWeightBytes && sharers >= kLeastSharers) {
    blocks.weight_bytes = RoundUp(static_cast<int64_t>(weight_bytes), kConvolutionAlignment);
  }
  const double pieces = static_cast<double>(gather.groups) * static_cast<double>(sharers);
  const int64_t wanted = threads == 1 ? 1 : kUnitsOfThread * threads;
  int64_t parts = pieces >= static_cast<double>(wanted) ? 1 : CeilOf(wanted, static_cast<int64_t>(pieces));
  parts = std::clamp<int64_t>(parts, 1, CeilOf(gather.results, kGroupRows));
  parts = std::max(parts, CeilOf(gather.results, kMostChannels));
  blocks.channels = std::min(RoundUp(CeilOf(gather.results, parts), kRowStep), gather.results);
  blocks.slots = std::min(threads, gather.groups * sharers * CeilOf(gather.results, blocks.channels));
  blocks.patch_bytes = RoundUp(columns * depth * kFloatBytes, kConvolutionAlignment);
  blocks.panel_bytes = blocks.weight_bytes != 0 ? 0
                                                : RoundUp(std::min(blocks.channels, kGroupRows) * depth * kFloatBytes,
                                                          kConvolutionAlignment);
  blocks.sum_bytes = RoundUp(blocks.channels * columns * kFloatBytes, kConvolutionAlignment);
  return blocks;
}

}  // namespace

TensorBlocks BlocksOfSmall(const Convolution& convolution, int64_t threads) {
  return TensorBlocksOf(GatherOfSmall(convolution), threads);
}

// Phases differ by a few positions and taps.
TensorBlocks BlocksOfBig(const Convolution& convolution, int64_t threads) {
  return TensorBlocksOf(PhasesOfBig(convolution).Largest(), threads);
}

WeightBlocks BlocksOfWeight(const Convolution& convolution, int64_t threads) {
  const Gather gather = GatherOfSmall(convolution);
  const int64_t columns = gather.columns();
  WeightBlocks blocks{};
  blocks.rows = std::min(RoundUp(PartOf(gather.rows(), kRowsOfUnit), kRowStep), gather.rows());
  blocks.channels = std::min(RoundUp(PartOf(gather.results, kChannelsOfUnit), kMoreColumns), gather.results);
  blocks.row_blocks = CeilOf(gather.rows(), blocks.rows);
  blocks.channel_blocks = CeilOf(gather.results, blocks.channels);
  const int64_t blocks_of_all = gather.groups * blocks.row_blocks * blocks.channel_blocks;
  const int64_t passes = CeilOf(columns, kDepthOfSum);
  int64_t chunks = std::min(CeilOf(kLeastUnits, blocks_of_all), CeilOf(passes, kLeastPasses));
  chunks = std::max(chunks, CeilOf(passes, kMostFloatAdditions));
  blocks.chunk = CeilOf(passes, chunks) * kDepthOfSum;
  blocks.chunks = CeilOf(columns, blocks.chunk);
  blocks.sum_bytes = RoundUp(blocks.rows * blocks.channels * kFloatBytes, kConvolutionAlignment);
  blocks.held = std::min(kHeldBytes / blocks.sum_bytes, blocks_of_all * blocks.chunks);
  blocks.total_bytes = blocks.chunks > blocks.held ? blocks.sum_bytes * 2 : 0;
  blocks.slots = std::min(threads, blocks.held);
  const int64_t depth = std::min(columns, kDepthOfSum);
  blocks.panel_bytes = RoundUp((blocks.channels + kMoreColumns) * depth * kFloatBytes, kConvolutionAlignment);
  blocks.patch_bytes = kGroupRows * kRowPitch * kFloatBytes;
  return blocks;
}

}  // namespace acl_host
