// The gradient of max pooling, plane by plane: every cell is the sum of gradOutput over the windows that chose it.
//
// Windows are added up in row-major order, and sums are rounded once. A plane is computed tile by tile; each tile
// visits all windows that reach into it, so the result depends neither on the tiles nor on the number of threads.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "families/max_pool/small_windows.h"
#include "families/max_pool/sums.h"
#include "families/max_pool/windows.h"
#include "plan/plan.h"
#include "plan/scratch.h"
#include "plan/scratch_slots.h"
#include "tensors/elements.h"
#include "tensors/rows.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

// Computes the tiles of one thread.
template <typename T, typename Layout, typename Sums>
class Planes {
  using Sum = typename Sums::Sum;

 public:
  // The last arguments are those of the sums.
  template <typename... OfSums>
  Planes(const MaxPool& pool, const Pair& tile, const KernelArguments& arguments, OfSums&&... of_sums)
      : pool_(pool),
        tile_(tile),
        table_(pool),
        grad_output_(arguments.inputs[0]),
        layout_(pool, table_, arguments.inputs[1]),
        sums_(std::forward<OfSums>(of_sums)...),
        cells_(table_.most_windows),
        grads_(table_.most_windows) {}

  void SetTile(const Tile&) {}

  // Makes a row of tiles.
  int64_t MakeRows(const Tile& tile, int64_t row, int64_t) {
    const int64_t top = row * tile_.height;
    AddUp(tile.plane, {top, std::min(top + tile_.height, pool_.input.height), tile.left, tile.right});
    return 1;
  }

 private:
  // Adds all windows that reach into the cells.
  void AddUp(int64_t plane, const Cells& cells) {
    Sum* const sums = sums_.Begin(plane, cells);
    const Range rows = WindowsOver({cells.top, cells.bottom}, pool_.kernel.height, pool_.stride.height,
                                   pool_.padding.height, pool_.output.height);
    const Range columns = WindowsOver({cells.left, cells.right}, pool_.kernel.width, pool_.stride.width,
                                      pool_.padding.width, pool_.output.width);
    const int64_t width = columns.size();
    const bool whole_rows = width == pool_.output.width && width <= kWindowsPerBlock;
    const int64_t most_rows = whole_rows ? kWindowsPerBlock / width : 1;
    for (int64_t row = rows.begin; row < rows.end; row += most_rows) {
      for (int64_t column = columns.begin; column < columns.end; column += kWindowsPerBlock) {
        Add({plane, row, std::min(most_rows, rows.end - row), column, std::min(kWindowsPerBlock, columns.end - column)},
            cells, sums);
      }
    }
    sums_.End(plane, cells);
  }

  void Add(const Block& block, const Cells& cells, Sum* __restrict sums) {
    const std::byte* __restrict const grad = grad_output_ + static_cast<size_t>(block.First(pool_)) * sizeof(T);
    const int32_t* __restrict const numbers = cells_.data();
    table_.Assign(block);
    if (table_.fits && layout_.FindCells(block, cells, cells_.data())) {
      // Widened first, in vectors, because the additions are scalar.
      const int64_t count = block.count();
      float* __restrict const grads = grads_.data();
      WidenRow<T>(grad, grads, count);
      for (int64_t i = 0; i < count; ++i) sums[numbers[i]] += Sum{grads[i]};
    } else {
      layout_.ForChosenCells(block, [&](int64_t y, int64_t x, int64_t window) {
        if (!cells.Holds(y, x)) return;
        sums[(y - cells.top) * cells.width() + x - cells.left] += Sum{WidenElement<T>(grad, window)};
      });
    }
  }

  const MaxPool& pool_;
  const Pair tile_;
  WindowTable table_;
  const std::byte* const grad_output_;
  Layout layout_;
  Sums sums_;
  Scratch<int32_t> cells_;
  Scratch<float> grads_;
};

// gradOutput and indices of the layout -> the gradient. The scratch has room for the sums of some threads.
template <typename T, typename Layout>
void MakeGradient(const MaxPool& pool, int64_t slots, const KernelArguments& arguments) {
  if constexpr (Layout::kEachWindowAdds) {
    if (HasSmallWindows(pool)) return MakeOfSmallWindows<T>(pool, arguments);
  }
  const TileWork work = WorkOf(pool, sizeof(T));
  std::byte* const out = arguments.outputs[0];
  if constexpr (std::is_same_v<T, float> && Layout::kEachWindowAdds) {
    if (MostWindowsOver(pool) <= kMostFloatAdditions && InPlace::Fits(pool, out)) {
      return ForTiles(arguments.pool, TilesOf(pool, pool.input), work,
                      [&] { return Planes<T, Layout, InPlace>(pool, pool.input, arguments, out); });
    }
  }
  std::byte* const scratch = arguments.scratch[0];
  ScratchSlots memory(scratch + (-reinterpret_cast<uintptr_t>(scratch)) % alignof(double), slots, TileBytes(pool));
  VisitSumType<T>(MostWindowsOver(pool), [&](auto tag) {
    using Worker = Planes<T, Layout, TileSums<T, typename decltype(tag)::Type>>;
    const Pair tile = TileSize(pool);
    ForTiles(arguments.pool, TilesOf(pool, tile), work,
             [&] { return Worker(pool, tile, arguments, pool, memory, out); });
  });
}

}  // namespace
}  // namespace acl_host
