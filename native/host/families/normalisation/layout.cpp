#include <algorithm>

#include "families/normalisation/computation.h"

namespace acl_host {
namespace {

int64_t Parts(int64_t count, int64_t of_part) { return (count - 1) / of_part + 1; }

int64_t ChunkSamples(const NormalisedTensor& norm, const NormalisationLayout& layout) {
  if (norm.over_samples()) return std::clamp<int64_t>(2048 / norm.cells, 1, 64);
  const int64_t wanted =
      std::max({32 / layout.slot_cells, 65536 / (norm.channels * norm.cells), Parts(norm.samples, 32)});
  return std::min(wanted, kMostFloatAdditions * (layout.is_short ? NormalisationLayout::kRowsTogether : 1));
}

int64_t StepSamples(const NormalisedTensor& norm, const NormalisationLayout& layout) {
  if (norm.over_samples()) return norm.samples;
  if (!layout.is_short) return 1;
  constexpr int64_t kTogether = NormalisationLayout::kRowsTogether;
  return std::clamp<int64_t>(kRowPart / kTogether / layout.block_slots, 1, 64) * kTogether;
}

bool SharesTasks(const NormalisedTensor& norm, const NormalisationLayout& layout) {
  constexpr int64_t kMostOfTask = 65536;
  if (layout.tiles * (norm.over_samples() ? layout.chunks : 1) == 1) return false;
  return layout.tasks < 2 * norm.threads || (!norm.over_samples() && layout.block_channels * norm.cells > kMostOfTask);
}

}  // namespace

NormalisationLayout::NormalisationLayout(const NormalisedTensor& norm, bool has_sums) {
  is_short = norm.cells < kSumsAlong;
  slot_cells = is_short ? 1 : std::min(norm.cells, kRowPart);
  slots_of_channel = Parts(norm.cells, slot_cells);
  slots = norm.channels * slots_of_channel;

  block_channels =
      norm.over_samples() ? std::min(norm.channels, Parts(kMostOfBlock, norm.cells)) : norm.channels / norm.groups;
  blocks = Parts(norm.channels, block_channels);
  block_slots = block_channels * slots_of_channel;

  chunk_samples = ChunkSamples(norm, *this);
  chunks = Parts(norm.samples, chunk_samples);
  tile_slots = std::min(block_slots, is_short ? kRowPart / norm.cells * norm.cells : kRowPart / slot_cells);
  tiles = Parts(block_slots, tile_slots);

  task_samples = norm.over_samples() ? norm.samples : chunk_samples;
  tasks = blocks * Parts(norm.samples, task_samples);
  step_samples = StepSamples(norm, *this);
  shares_tasks = SharesTasks(norm, *this);

  block_numbers = kNumbers * block_channels * (is_short ? norm.cells : 1);
  const bool keeps_sums = has_sums && (norm.over_samples() ? shares_tasks : chunks > 1 || !is_short);
  sums_bytes = keeps_sums ? static_cast<uint64_t>(chunks * slots) * 2 * sizeof(float) : 0;
  const auto numbers = static_cast<uint64_t>(blocks * block_numbers) * sizeof(float);
  const auto totals = static_cast<uint64_t>(norm.samples * blocks * tiles) * 2 * sizeof(double);
  statistics_bytes = !shares_tasks ? 0 : norm.over_samples() ? numbers : totals;
}

}  // namespace acl_host
