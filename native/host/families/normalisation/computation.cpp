// With normalised = (input - mean) * rstd and g = gradOut * weight, over all elements of the same mean
//
//   gradInput = rstd * (g - mean(g) - normalised * mean(g * normalised))
//
// and for each weight gradWeight = sum(gradOut * normalised), gradBias = sum(gradOut). Elements that were not centred
// (RMS norm) have neither mean nor mean(g). If mean and rstd are constants, gradInput = rstd * g.
//
// All is computed in float32 and rounded once, but for sums of sums, which are in float64. Their order depends on the
// shape alone, so the result depends neither on the vectors nor on the number of threads.
#include "families/normalisation/computation.h"

#include <algorithm>

#include "families/normalisation/over_samples.h"
#include "families/normalisation/within_samples.h"

namespace acl_host {
namespace {

// One of a block, in some samples of a chunk.
Tile TileAt(const NormalisationLayout& layout, int64_t block, int64_t number, int64_t first_sample,
            int64_t end_sample) {
  const int64_t first_slot = block * layout.block_slots + number * layout.tile_slots;
  const int64_t end_slot = std::min(layout.slots, (block + 1) * layout.block_slots);
  return {first_sample / layout.chunk_samples,
          block,
          number,
          first_sample,
          end_sample,
          first_slot,
          std::min(end_slot, first_slot + layout.tile_slots)};
}

// Calls visit(tile) for those of a block, in samples that begin a chunk or are all in one.
template <typename Visit>
void ForTiles(const NormalisationLayout& layout, int64_t block, int64_t first_sample, int64_t end_sample,
              const Visit& visit) {
  for (int64_t first = first_sample; first < end_sample; first += layout.chunk_samples) {
    const int64_t end = std::min(end_sample, first + layout.chunk_samples);
    for (int64_t number = 0; number < layout.tiles; ++number) visit(TileAt(layout, block, number, first, end));
  }
}

template <typename Worker>
void Make(const Normalisation& norm, Worker& worker, const Tile& tile) {
  if (norm.grad_input) {
    VisitFloatType(norm.grad_input->type, [&](auto tag) { worker.template Make<typename decltype(tag)::Type>(tile); });
  }
  worker.AddUp(tile);
}

template <typename Worker>
void MakeTasks(const Normalisation& norm, const NormalisationLayout& layout, const KernelArguments& arguments) {
  const int64_t elements = layout.task_samples * layout.block_channels * norm.cells;
  arguments.pool.ParallelFor(layout.tasks, Grain(elements), [&](int64_t begin, int64_t end) {
    Worker worker(norm, layout, arguments);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t block = task % layout.blocks;
      int64_t first = task / layout.blocks * layout.task_samples;
      const int64_t last = std::min(norm.samples, first + layout.task_samples);
      worker.Prepare(block);
      for (; first < last; first += layout.step_samples) {
        const int64_t next = std::min(last, first + layout.step_samples);
        ForTiles(layout, block, first, next, [&](const Tile& tile) { worker.Sum(tile); });
        worker.Finish(block, first, next);
        ForTiles(layout, block, first, next, [&](const Tile& tile) { Make(norm, worker, tile); });
      }
    }
  });
}

template <typename Worker>
void ShareTasks(const Normalisation& norm, const NormalisationLayout& layout, const KernelArguments& arguments) {
  const int64_t of_block = layout.tiles * layout.chunks;
  const int64_t elements = layout.chunk_samples * layout.tile_slots * layout.slot_cells;
  const auto for_tiles = [&](const auto& act) {
    arguments.pool.ParallelFor(layout.blocks * of_block, Grain(elements), [&](int64_t begin, int64_t end) {
      Worker worker(norm, layout, arguments);
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t first = tile % of_block / layout.tiles * layout.chunk_samples;
        const int64_t last = std::min(norm.samples, first + layout.chunk_samples);
        act(worker, TileAt(layout, tile / of_block, tile % layout.tiles, first, last));
      }
    });
  };
  Worker worker(norm, layout, arguments);
  for (int64_t block = 0; block < layout.blocks; ++block) worker.Prepare(block);
  for_tiles([](Worker& of, const Tile& tile) { of.Sum(tile); });
  for (int64_t block = 0; block < layout.blocks; ++block) worker.Finish(block, 0, norm.samples);
  for_tiles([&](Worker& of, const Tile& tile) { Make(norm, of, tile); });
}

// Writes the gradients of the parameters from the sums of all chunks.
void AddChunks(const Normalisation& norm, const NormalisationLayout& layout, const KernelArguments& arguments) {
  const Table sums{arguments.scratch.front(), 0, layout.slots};
  const int64_t elements = layout.chunks * layout.slots_of_channel;
  arguments.pool.ParallelFor(norm.channels, Grain(elements), [&](int64_t begin, int64_t end) {
    WriteParameters(norm, layout, arguments, sums, begin, end);
  });
}

template <typename Worker>
void MakeAll(const Normalisation& norm, const NormalisationLayout& layout, const KernelArguments& arguments) {
  layout.shares_tasks ? ShareTasks<Worker>(norm, layout, arguments) : MakeTasks<Worker>(norm, layout, arguments);
}

}  // namespace

template <>
void NormalisationBackward<VECTOR_LEVEL>::Run(const Normalisation& norm, const NormalisationLayout& layout,
                                              const KernelArguments& arguments) {
  VisitFloatType(norm.grad_out.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    norm.over_samples() ? MakeAll<OverSamples<T>>(norm, layout, arguments)
                        : MakeAll<WithinSamples<T>>(norm, layout, arguments);
  });
  if (!norm.over_samples() && layout.sums_bytes > 0) AddChunks(norm, layout, arguments);
}

}  // namespace acl_host
