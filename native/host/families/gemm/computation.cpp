#include "families/gemm/computation.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "families/gemm/micro_kernel.h"
#include "families/gemm/packing.h"
#include "families/gemm/results.h"
#include "families/gemm/vectors.h"
#include "plan/scratch.h"
#include "plan/scratch_slots.h"
#include "tensors/axes.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

// Panels of a tile, whose left ones remain in the cache.
constexpr int64_t kTilePanels = 8;

int64_t CeilOf(int64_t count, int64_t of) { return (count + of - 1) / of; }

// Rows and columns of results, of a part of the depth.
struct Block {
  int64_t batch;
  int64_t part;
  int64_t row;
  int64_t rows;
  int64_t column;
  int64_t columns;
  std::byte* sums;  // null: in the slot
};

// One after the other, or as the pool divides them.
struct InOrder {
  template <typename Body>
  void operator()(int64_t count, const Body& body) const {
    for (int64_t i = 0; i < count; ++i) body(i);
  }
};
struct InPool {
  ThreadPool& pool;
  template <typename Body>
  void operator()(int64_t count, const Body& body) const {
    pool.ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  }
};

template <typename T>
class Multiplication {
 public:
  Multiplication(const MatrixProduct& product, const ProductBlocks& blocks, const KernelArguments& arguments)
      : product_(product), blocks_(blocks), arguments_(arguments), results_(product, arguments) {}

  // Some matrices, and rows of them, at a time, if there are parts of each; otherwise all.
  void Run() const {
    const int64_t batches = ElementCount(product_.batches);
    for (int64_t batch = 0; batch < batches; batch += blocks_.part_matrices) {
      for (int64_t row = 0; row < product_.rows; row += blocks_.part_rows) {
        const Range some{batch, std::min(batches, batch + blocks_.part_matrices)};
        const Range rows{row, std::min(product_.rows, row + blocks_.part_rows)};
        MakeSome(some, rows);
        if (product_.parts() > 1) results_.AddParts(arguments_.scratch[1], some, rows);
      }
    }
  }

 private:
  // Products that are worth waking a thread for.
  static constexpr int64_t kGrainWork = int64_t{1} << 18;
  static constexpr int64_t kLongDepth = 4096;

  void MakeSome(Range matrices, Range rows) const {
    std::byte* const memory = AlignedTo<std::byte>(arguments_.scratch[0], kSlotAlignment);
    const int64_t parts = product_.parts();
    const int64_t per_column = CeilOf(rows.size(), blocks_.rows);
    const int64_t per_row = CeilOf(product_.columns, blocks_.columns);
    const int64_t count = matrices.size() * parts * per_column * per_row;
    const auto block_at = [&](int64_t index) {
      const int64_t column = index % per_row * blocks_.columns;
      const int64_t row = rows.begin + index / per_row % per_column * blocks_.rows;
      const int64_t matrix = index / per_row / per_column;
      Block block{matrices.begin + matrix / parts,
                  matrix % parts,
                  row,
                  std::min(blocks_.rows, rows.end - row),
                  column,
                  std::min(blocks_.columns, product_.columns - column),
                  {}};
      if (parts > 1) {
        const int64_t first = (matrix * rows.size() + row - rows.begin) * product_.columns + column;
        block.sums = arguments_.scratch[1] + first * kFloatBytes;
      } else if (blocks_.sum_bytes == 0) {
        const int64_t first = (block.batch * product_.rows + row) * product_.columns + column;
        block.sums = arguments_.outputs[0] + first * kFloatBytes;
      }
      return block;
    };
    if (blocks_.is_shared) {
      for (int64_t index = 0; index < count; ++index) Make(block_at(index), memory, InPool{arguments_.pool});
      return;
    }
    ScratchSlots slots(memory, blocks_.slots, static_cast<size_t>(blocks_.slot_bytes()));
    const int64_t work = blocks_.rows * blocks_.columns * std::min(product_.part_depth, kLongDepth);
    arguments_.pool.ParallelFor(count, kGrainWork / work + 1, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Lease slot(slots);
      for (int64_t index = begin; index < end; ++index) Make(block_at(index), slot.memory(), InOrder{});
    });
  }

  template <typename Loop>
  void Make(const Block& block, std::byte* memory, const Loop& loop) const {
    const int64_t begin = block.part * product_.part_depth;
    const int64_t end = std::min(product_.depth, begin + product_.part_depth);
    const bool has_sums = block.sums == nullptr;
    std::byte* const sums = has_sums ? memory + blocks_.panel_bytes : block.sums;
    const int64_t row_bytes = (has_sums ? block.columns : product_.columns) * kFloatBytes;
    const MatrixLines<T> left = LinesOf(product_.left, arguments_.inputs[0], block.batch, block.row, true);
    const MatrixLines<T> right = LinesOf(product_.right, arguments_.inputs[1], block.batch, block.column, false);
    const int64_t left_panels = CeilOf(block.rows, kTileRows);
    const int64_t right_panels = CeilOf(block.columns, kTileColumns);
    auto* const packed = reinterpret_cast<float*>(memory);
    for (int64_t k = begin; k < end; k += kDepthOfSum) {
      const int64_t depth = std::min(kDepthOfSum, end - k);
      float* const packed_right = packed;
      float* const packed_left = packed + VectorsOf(block.columns) * kFloatLanes * depth;
      loop(left_panels + right_panels, [&](int64_t panel) {
        if (panel < right_panels) {
          const int64_t first = panel * kTileColumns;
          const int64_t lines = std::min(kTileColumns, block.columns - first);
          right.Pack(first, lines, k, k + depth, VectorsOf(lines) * kFloatLanes, packed_right + first * depth);
        } else {
          const int64_t first = (panel - right_panels) * kRows;
          const int64_t lines = std::min(kRows, block.rows - first);
          left.Pack(first, lines, k, k + depth, lines, packed_left + first * depth);
        }
      });
      const int64_t tile_columns = CeilOf(right_panels, kTilePanels);
      loop(CeilOf(left_panels, kTilePanels) * tile_columns, [&](int64_t tile) {
        const Range rows = PanelsOf(tile / tile_columns, kRows, block.rows);
        const Range columns = PanelsOf(tile % tile_columns, kTileColumns, block.columns);
        for (int64_t column = columns.begin; column < columns.end; column += kTileColumns) {
          const int64_t some = std::min(kTileColumns, columns.end - column);
          for (int64_t row = rows.begin; row < rows.end; row += kRows) {
            MultiplyTile(std::min(kRows, rows.end - row), VectorsOf(some), depth, packed_left + row * depth,
                         packed_right + column * depth,
                         {sums + row * row_bytes + column * kFloatBytes, row_bytes, some, k == begin});
          }
        }
        if (k + depth == end && product_.parts() == 1 && !product_.is_plain()) {
          for (int64_t row = rows.begin; row < rows.end; ++row) {
            results_.Finish(sums + row * row_bytes + columns.begin * kFloatBytes, block.batch, block.row + row,
                            block.column + columns.begin, columns.size());
          }
        }
      });
    }
  }

  [[nodiscard]] MatrixLines<T> LinesOf(const Matrices& matrices, const std::byte* from, int64_t batch, int64_t line,
                                       bool are_rows) const {
    const int64_t line_stride = are_rows ? matrices.row_stride : matrices.column_stride;
    const int64_t depth_stride = are_rows ? matrices.column_stride : matrices.row_stride;
    const int64_t first = BatchOffset(product_, matrices, batch) + line * line_stride;
    return {from + first * int64_t{sizeof(T)}, line_stride, depth_stride};
  }

  [[nodiscard]] static int64_t VectorsOf(int64_t columns) { return CeilOf(columns, kFloatLanes); }

  [[nodiscard]] static Range PanelsOf(int64_t tile, int64_t lines, int64_t all) {
    const int64_t begin = tile * kTilePanels * lines;
    return {begin, std::min(all, begin + kTilePanels * lines)};
  }

  static constexpr auto kRows = static_cast<int64_t>(kTileRows);

  const MatrixProduct& product_;
  const ProductBlocks& blocks_;
  const KernelArguments& arguments_;
  const Results results_;
};

}  // namespace

template <>
void Gemm<VECTOR_LEVEL>::Run(const MatrixProduct& product, const ProductBlocks& blocks,
                             const KernelArguments& arguments) {
  if (product.depth == 0) return Results(product, arguments).FinishZeros();
  VisitFloatType(product.left.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    blocks.is_vector ? VectorProducts<T>(product, blocks, arguments).Run()
                     : Multiplication<T>(product, blocks, arguments).Run();
  });
}

}  // namespace acl_host
