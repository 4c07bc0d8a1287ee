
#include <algorithm>

#include "families/convolution/computation.h"
#include "families/convolution/gather.h"
#include "families/gemm/computation.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
// Multiples of the rows and columns of every vector level's tiles.
constexpr int64_t kRowStep = 24;
constexpr int64_t kMoreColumns = 32;

// All scratch takes this much and a quarter of the tensors, which is more than a slot or two, but no more than threads
// have: 16 MiB each, with what sums of biases take.
constexpr int64_t kFreeBytes = int64_t{3} << 20;
constexpr int64_t kThreadBytes = int64_t{15} << 20;
constexpr int64_t kSumBytes = int64_t{3} << 19;

// Sums of a weight's unit take half a MiB.
constexpr int64_t kRowsOfUnit = 512;
constexpr int64_t kChannelsOfUnit = 256;
constexpr int64_t kLeastUnits = 16;
constexpr int64_t kLeastPasses = 4;

int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
int64_t CeilOf(int64_t count, int64_t of) { return (count + of - 1) / of; }

// A number that is compared with bounds far below the largest.
int64_t Bounded(double value) { return static_cast<int64_t>(std::min(value, 4e18)); }

double PackedWeightBytes(const Gather& gather) {
  return static_cast<double>(gather.groups) * static_cast<double>(gather.results) * static_cast<double>(gather.rows()) *
         kFloatBytes;
}

int64_t BudgetOf(const Gather& gather, int64_t threads) {
  double source = static_cast<double>(gather.images) * static_cast<double>(gather.groups * gather.channels);
  for (const GatherAxis& axis : gather.axes) source *= static_cast<double>(axis.source);
  const double result = static_cast<double>(gather.columns()) * static_cast<double>(gather.groups * gather.results);
  const double weight = PackedWeightBytes(gather) / kFloatBytes;
  const double bytes = (source + result + weight) * static_cast<double>(aclDataTypeSize(gather.type));
  return std::min(kFreeBytes + Bounded(bytes / 4), threads * kThreadBytes);
}

// The parts of so many equal units that keep all threads busy to the end. Each part packs its patches again.
int64_t PartsFor(int64_t units, int64_t threads, int64_t most) {
  int64_t parts = 1;
  const auto is_uneven = [&](int64_t all) { return all < 2 * threads || (all < 4 * threads && all % threads != 0); };
  while (threads > 1 && parts < most && is_uneven(units * parts)) ++parts;
  return parts;
}

TensorBlocks TensorBlocksOf(const Gather& gather, int64_t threads) {
  const int64_t depth = std::min(gather.rows(), kDepthOfSum);
  TensorBlocks blocks{};
  // Few columns are in one unit, because each packs the weight if there is no room for all of it.
  blocks.columns = gather.columns() <= TensorBlocks::kFewColumns ? TensorBlocks::kFewColumns : TensorBlocks::kColumns;
  const int64_t columns = std::min(RoundUp(gather.columns(), kMoreColumns), blocks.columns);
  const int64_t of_columns = CeilOf(gather.columns(), blocks.columns);
  int64_t parts = PartsFor(gather.groups * of_columns, threads, CeilOf(gather.results, kGroupRows));
  parts = std::max(parts, CeilOf(gather.results, kSumBytes / (columns * kFloatBytes)));
  blocks.channels = std::min(RoundUp(CeilOf(gather.results, parts), kRowStep), gather.results);
  blocks.patch_bytes = RoundUp(columns * depth * kFloatBytes, kConvolutionAlignment);
  // Some units pack the weight of a few taps in any case.
  blocks.panel_bytes = RoundUp(std::min(blocks.channels, kGroupRows) * depth * kFloatBytes, kConvolutionAlignment);
  blocks.sum_bytes = RoundUp(blocks.channels * columns * kFloatBytes, kConvolutionAlignment);
  const int64_t most = std::min(threads, gather.groups * of_columns * CeilOf(gather.results, blocks.channels));
  const int64_t budget = BudgetOf(gather, threads);
  const int64_t weight_bytes = RoundUp(Bounded(PackedWeightBytes(gather)), kConvolutionAlignment);
  if (of_columns > 1 && weight_bytes <= budget - most * blocks.slot_bytes()) {
    blocks.weight_bytes = weight_bytes;
    blocks.slots = most;
    return blocks;
  }
  blocks.slots = std::clamp<int64_t>(budget / blocks.slot_bytes(), 1, most);
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
  const int64_t depth = std::min(columns, kDepthOfSum);
  blocks.panel_bytes = RoundUp((blocks.channels + kMoreColumns) * depth * kFloatBytes, kConvolutionAlignment);
  blocks.patch_bytes = kGroupRows * kRowPitch * kFloatBytes;
  const int64_t units = blocks_of_all * blocks.chunks;
  const int64_t budget = BudgetOf(gather, threads);
  blocks.slots = std::clamp<int64_t>(budget / (blocks.slot_bytes() + blocks.sum_bytes), 1, std::min(threads, units));
  const int64_t left = budget - blocks.slots * blocks.slot_bytes();
  blocks.held = std::clamp<int64_t>(left / blocks.sum_bytes, 1, units);
  if (blocks.chunks <= blocks.held) return blocks;
  blocks.total_bytes = 2 * blocks.sum_bytes;
  blocks.held = std::max<int64_t>((left - blocks.total_bytes) / blocks.sum_bytes, 1);
  return blocks;
}

}  // namespace acl_host
