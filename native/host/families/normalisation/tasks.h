// The loops over the tiles of a launch, which workers compute: Sum(tile) of all tiles of a block, then Finish(block) in
// some samples, then Make(tile). In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "families/normalisation/elements.h"

namespace acl_host {
namespace {

// One of a block, in some samples of a chunk.
inline Tile TileAt(const NormalisationLayout& layout, int64_t block, int64_t number, int64_t first_sample,
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

template <typename Worker, typename Norm>
void MakeTasks(const Norm& norm, const NormalisationLayout& layout, const KernelArguments& arguments) {
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
        ForTiles(layout, block, first, next, [&](const Tile& tile) { worker.Make(tile); });
      }
    }
  });
}

template <typename Worker, typename Norm>
void ShareTasks(const Norm& norm, const NormalisationLayout& layout, const KernelArguments& arguments) {
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
  for_tiles([](Worker& of, const Tile& tile) { of.Make(tile); });
}

template <typename Worker, typename Norm>
void MakeAll(const Norm& norm, const NormalisationLayout& layout, const KernelArguments& arguments) {
  layout.shares_tasks ? ShareTasks<Worker>(norm, layout, arguments) : MakeTasks<Worker>(norm, layout, arguments);
}

}  // namespace
}  // namespace acl_host
