// The gradient of max pooling, plane by plane: every cell is the sum of gradOutput over the windows that chose it.
//
// Sums are in float32, windows in row-major order, and are rounded once. One thread computes each plane, so the result
// does not depend on the number of threads.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "families/max_pool/sums.h"
#include "families/max_pool/windows.h"
#include "plan/plan.h"
#include "plan/scratch_slots.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

template <typename T, typename Layout, typename Sums>
class Planes {
 public:
  Planes(const MaxPool& pool, const WindowTable& table, const Launch& launch, Sums sums)
      : pool_(pool),
        table_(table),
        grad_output_(launch.inputs[0]),
        layout_(pool, table, launch.inputs[1]),
        sums_(sums),
        cells_(table.tops.size()),
        grads_(table.tops.size()) {}

  void Make(int64_t plane) {
    const int64_t most_rows = std::max<int64_t>(kWindowsPerBlock / pool_.output.width, 1);
    sums_.Begin(plane * pool_.input.height);
    for (int64_t row = 0; row < pool_.output.height;) {
      const WindowRow first(pool_, row);
      // Later windows do not reach above the first row of this one.
      if (!sums_.Holds(first)) sums_.AdvanceTo(first.begin);
      Block block{plane, row, row + 1};
      const int64_t end = std::min(row + most_rows, pool_.output.height);
      while (block.end < end && sums_.Holds(WindowRow(pool_, block.end))) ++block.end;
      Add(block);
      row = block.end;
    }
    sums_.AdvanceTo(pool_.input.height);
  }

 private:
  void Add(const Block& block) {
    const int64_t count = (block.end - block.begin) * pool_.output.width;
    const int64_t first = (block.plane * pool_.output.height + block.begin) * pool_.output.width;
    const std::byte* __restrict const grad = grad_output_ + static_cast<size_t>(first) * sizeof(T);
    const int32_t* __restrict const cells = cells_.data();
    float* __restrict const sums = sums_.sums();
    if (table_.fits && layout_.FindCells(block, sums_.base(), static_cast<int32_t>(sums_.none()), cells_.data())) {
      // Widened first, in vectors, because the additions are scalar.
      float* __restrict const grads = grads_.data();
      WidenRow<T>(grad, grads, count);
      for (int64_t i = 0; i < count; ++i) sums[cells[i]] += grads[i];
    } else {
      layout_.ForChosenCells(block, sums_.base(),
                             [&](int64_t cell, int64_t window) { sums[cell] += WidenElement<T>(grad, window); });
    }
  }

  const MaxPool& pool_;
  const WindowTable& table_;
  const std::byte* const grad_output_;
  Layout layout_;
  Sums sums_;
  std::vector<int32_t> cells_;
  std::vector<float> grads_;
};

template <typename T, typename Layout, typename Sums>
void MakePlanes(const MaxPool& pool, const WindowTable& table, const Launch& launch, Sums sums, int64_t begin,
                int64_t end) {
  Planes<T, Layout, Sums> planes(pool, table, launch, sums);
  for (int64_t plane = begin; plane < end; ++plane) planes.Make(plane);
}

// gradOutput and indices of the layout -> the gradient; the scratch has room for the bands of all threads.
template <typename T, typename Layout>
void MakeGradient(const MaxPool& pool, int64_t bands, const Launch& launch) {
  constexpr int64_t kElementsPerPiece = 32768;
  constexpr bool kInPlace = std::is_same_v<T, float> && Layout::kEachWindowAdds;
  const WindowTable table(pool);
  std::byte* const scratch = launch.scratch[0];
  ScratchSlots slots(scratch + (-reinterpret_cast<uintptr_t>(scratch)) % alignof(float), bands, BandBytes(pool));
  std::byte* const out = launch.outputs[0];
  const bool in_place = kInPlace && InPlace::Fits(pool, out);
  const int64_t elements_per_plane = pool.input.height * pool.input.width + pool.output.height * pool.output.width;
  launch.pool.ParallelFor(pool.batches * pool.channels, kElementsPerPiece / elements_per_plane + 1,
                          [&](int64_t begin, int64_t end) {
                            if constexpr (kInPlace) {
                              if (in_place) {
                                return MakePlanes<T, Layout>(pool, table, launch, InPlace(pool, out), begin, end);
                              }
                            }
                            const ScratchSlots::Lease band(slots);
                            MakePlanes<T, Layout>(pool, table, launch, Band<T>(pool, band.memory(), out), begin, end);
                          });
}

}  // namespace
}  // namespace acl_host
