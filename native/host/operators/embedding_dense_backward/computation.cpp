#include "computation.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "families/gathering/positions.h"
#include "plan/tiles.h"

namespace acl_host {
namespace {

template <typename Index>
[[nodiscard]] int64_t IndexOf(const std::byte* indices, int64_t position) {
  return static_cast<int64_t>(WidenElement<Index>(indices, position));
}

// A device would write out of bounds. Here it always faults.
template <typename Index>
void CheckIndices(const Embedding& embedding, const std::byte* indices) {
  for (int64_t i = 0; i < embedding.blocks.count; ++i) {
    const int64_t index = IndexOf<Index>(indices, i);
    if (0 <= index && index < embedding.blocks.rows) continue;
    throw Error(ACL_ERROR_RT_AICORE_EXCEPTION, "aclnnEmbeddingDenseBackward: indices: element " + std::to_string(i) +
                                                   " is " + std::to_string(index) + ", and there are " +
                                                   std::to_string(embedding.blocks.rows) + " rows");
  }
}

// Makes tiles of out, in one thread.
template <typename IndexAt>
class WeightTiles {
 public:
  WeightTiles(const Embedding& embedding, const KernelArguments& arguments, const IndexAt& index_at,
              const Positions<IndexAt>& positions)
      : embedding_(embedding),
        blocks_(embedding.blocks),
        arguments_(arguments),
        index_at_(index_at),
        positions_(positions),
        grads_(arguments, embedding.grad, blocks_.tile_columns()),
        sums_(blocks_.block_rows() * blocks_.tile_columns()),
        row_(blocks_.tile_columns()),
        rows_(static_cast<size_t>(blocks_.block_rows())),
        // One or two numbers have the same sum in float32, and then no others are needed.
        most_direct_(embedding.grad.type != embedding.out.type ? 0
                     : embedding.scales                        ? 1
                                                               : 2) {}

  void Make(int64_t block, int64_t left) {
    const int64_t first = block * blocks_.block_rows();
    const int64_t rows = std::min(blocks_.block_rows(), blocks_.rows - first);
    const int64_t width = std::min(blocks_.tile_columns(), blocks_.columns - left);
    std::fill(rows_.begin(), rows_.end(), Row{});
    ForIndices(block, [&](Row& row, int64_t, int64_t) { ++row.count; });
    ForIndices(block, [&](Row& of, int64_t row, int64_t position) {
      const int64_t earlier = std::exchange(of.latest, position);
      const int64_t cell = position * blocks_.columns + left;
      if (of.count <= most_direct_) {
        if (of.count == 2 && earlier < 0) return;
        WriteSum(cell, of.count == 1 ? -1 : earlier * blocks_.columns + left, TargetOf(first + row, left), width);
        return;
      }
      const std::byte* const grads = grads_.Read(cell, width);
      const bool is_first = earlier < 0;
      double* const sums = sums_.data() + row * width;
      is_first ? AddRow<float, true>(grads, width, sums) : AddRow<float>(grads, width, sums);
    });
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t count = rows_[static_cast<size_t>(row)].count;
      const int64_t target = TargetOf(first + row, left);
      if (count == 0) {
        const size_t bytes = aclDataTypeSize(embedding_.out.type);
        std::memset(arguments_.outputs[embedding_.out.index] + static_cast<size_t>(target) * bytes, 0,
                    static_cast<size_t>(width) * bytes);
        continue;
      }
      if (count <= most_direct_) continue;
      const double* const sums = sums_.data() + row * width;
      // Most calls do not scale, and a division would take longer than all else.
      embedding_.scales ? Narrow(sums, width, row_.data(), [=](double sum) { return sum / static_cast<double>(count); })
                        : Narrow(sums, width, row_.data(), [](double sum) { return sum; });
      Round(row_.data(), arguments_, embedding_.out, target, width);
    }
  }

 private:
  struct Row {
    int64_t count = 0;    // of its indices
    int64_t latest = -1;  // the position of the last one that was read
  };

  // Calls visit(row, number, position) for the indices of a block in their order, with the number of the row in it.
  template <typename Visit>
  void ForIndices(int64_t block, const Visit& visit) {
    positions_.ForBlock(block, [&](int64_t position) {
      const int64_t index = index_at_(position);
      if (index == embedding_.padding) return;
      const int64_t row = index - block * blocks_.block_rows();
      visit(rows_[static_cast<size_t>(row)], row, position);
    });
  }

  [[nodiscard]] int64_t TargetOf(int64_t row, int64_t left) const { return row * blocks_.columns + left; }

  // The sum of gradients from one cell on and from another one, or zeros if that is negative.
  void WriteSum(int64_t cell, int64_t other, int64_t target, int64_t width) const {
    VisitFloatType(embedding_.out.type, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      constexpr int64_t kBytes = sizeof(T);
      const std::byte* const grads = arguments_.inputs[embedding_.grad.index];
      std::byte* const to = arguments_.outputs[embedding_.out.index] + target * kBytes;
      ForLanes(width, [&](int64_t i, auto lanes) {
        const FloatLanes added = other < 0 ? FloatLanes{} : LoadLanes<T>(grads + other * kBytes, i, lanes);
        StoreLanes<T>(LoadLanes<T>(grads + cell * kBytes, i, lanes) + added, to, i, lanes);
      });
    });
  }

  template <typename Scale>
  static void Narrow(const double* __restrict sums, int64_t count, float* __restrict to, const Scale& scale) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(scale(sums[i]));
  }

  const Embedding& embedding_;
  const RowBlocks& blocks_;
  const KernelArguments& arguments_;
  const IndexAt& index_at_;
  const Positions<IndexAt>& positions_;
  const Floats grads_;
  const Scratch<double> sums_;
  const Scratch<float> row_;
  std::vector<Row> rows_;
  const int64_t most_direct_;  // indices of a row whose gradients are written without sums
};

template <typename IndexAt>
void MakeBatch(const Embedding& embedding, const KernelArguments& arguments, const IndexAt& index_at,
               const Positions<IndexAt>& positions, const Batch& batch) {
  const RowBlocks& blocks = embedding.blocks;
  const int64_t across = blocks.tiles_across();
  const int64_t rows = batch.count + (batch.last - batch.first) * blocks.block_rows();
  const int64_t scratch_bytes = blocks.block_rows() * (blocks.tile_columns() + 2) * int64_t{sizeof(double)};
  const Tiles tiles{1, across * (batch.last - batch.first), 1, 1};
  const TileWork work{rows * blocks.columns, sizeof(uint16_t), scratch_bytes};
  arguments.pool.ParallelFor(tiles.count(), GrainOf(tiles, work), [&](int64_t begin, int64_t end) {
    WeightTiles<IndexAt> weights(embedding, arguments, index_at, positions);
    for (int64_t tile = begin; tile < end; ++tile) {
      weights.Make(batch.first + tile / across, tile % across * blocks.tile_columns());
    }
  });
}

template <typename Index>
void MakeAll(const Embedding& embedding, const KernelArguments& arguments) {
  CheckIndices<Index>(embedding, arguments.inputs[1]);
  const auto index_at = [indices = arguments.inputs[1]](int64_t position) { return IndexOf<Index>(indices, position); };
  std::byte* const memory = embedding.blocks.numbers() == 0 ? nullptr : arguments.scratch[0];
  Positions positions(embedding.blocks, index_at, memory);
  positions.ForBatches([&](const Batch& batch) { MakeBatch(embedding, arguments, index_at, positions, batch); });
}

}  // namespace

template <>
void EmbeddingDenseBackward<VECTOR_LEVEL>::Run(const Embedding& embedding, const KernelArguments& arguments) {
  VisitNumberType(embedding.index_type, [&](auto tag) {
    using Index = typename decltype(tag)::Type;
    if constexpr (std::is_arithmetic_v<Wide<Index>>) MakeAll<Index>(embedding, arguments);
  });
}

}  // namespace acl_host
