// The indices are ordered by the block of rows that they are in, some blocks at a time: the time does not grow with the
// number of indices times that of the blocks, and the order of all would take as much memory as they do.
#include "computation.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plan/tiles.h"

namespace acl_host {
namespace {

template <typename Index>
[[nodiscard]] int64_t IndexAt(const std::byte* indices, int64_t position) {
  return static_cast<int64_t>(WidenElement<Index>(indices, position));
}

// A device would write out of bounds. Here it always faults.
template <typename Index>
void CheckIndices(const Embedding& embedding, const std::byte* indices) {
  for (int64_t i = 0; i < embedding.count; ++i) {
    const int64_t index = IndexAt<Index>(indices, i);
    if (0 <= index && index < embedding.weights) continue;
    throw Error(ACL_ERROR_RT_AICORE_EXCEPTION, "aclnnEmbeddingDenseBackward: indices: element " + std::to_string(i) +
                                                   " is " + std::to_string(index) + ", and there are " +
                                                   std::to_string(embedding.weights) + " rows");
  }
}

// Blocks [first, last) that are made together, and the number of their indices.
struct Batch {
  int64_t first;
  int64_t last;
  int64_t count;
};

// The positions of the indices, ordered by their blocks. Within one they keep their order.
template <typename Index>
class Positions {
 public:
  Positions(const Embedding& embedding, const KernelArguments& arguments)
      : embedding_(embedding),
        indices_(arguments.inputs[1]),
        sizes_(embedding.blocks() == 1 ? nullptr : arguments.scratch[0]) {
    if (embedding.blocks() == 1) return;
    for (int64_t block = 0; block < embedding.blocks(); ++block) StoreElement<int64_t>(sizes_, block, 0);
    for (int64_t i = 0; i < embedding.count; ++i) (void)Advance(BlockAt(i));
  }

  // As many blocks as there is room for the positions of, but at least one.
  [[nodiscard]] Batch From(int64_t first) const {
    Batch batch{first, first + 1, SizeOf(first)};
    while (batch.last < embedding_.blocks() && batch.count + SizeOf(batch.last) <= embedding_.most_positions()) {
      batch.count += SizeOf(batch.last++);
    }
    return batch;
  }

  void Order(const Batch& batch) {
    batch_ = batch;
    if (LooksThroughAll()) return;
    int64_t begin = 0;
    for (int64_t block = batch.first; block < batch.last; ++block) {
      const int64_t size = SizeOf(block);
      StoreElement<int64_t>(sizes_, block, begin);
      begin += size;
    }
    // Each beginning moves to the end of its block.
    ForRows(batch.first, batch.last, [&](int64_t position) {
      StoreElement<int64_t>(sizes_, embedding_.blocks() + Advance(BlockAt(position)), position);
    });
  }

  // Calls visit(position) for the indices of a block of the batch.
  template <typename Visit>
  void ForBlock(int64_t block, const Visit& visit) const {
    if (LooksThroughAll()) return ForRows(block, block + 1, visit);
    const int64_t end = SizeOf(block);
    for (int64_t i = block == batch_.first ? 0 : SizeOf(block - 1); i < end; ++i) {
      visit(LoadElement<int64_t>(sizes_, embedding_.blocks() + i));
    }
  }

 private:
  // Looks for the indices of blocks [first, last) among all.
  template <typename Visit>
  void ForRows(int64_t first, int64_t last, const Visit& visit) const {
    const int64_t begin = first * embedding_.block_rows();
    const int64_t end = last * embedding_.block_rows();
    for (int64_t i = 0; i < embedding_.count; ++i) {
      const int64_t index = IndexAt<Index>(indices_, i);
      if (begin <= index && index < end) visit(i);
    }
  }
  [[nodiscard]] bool LooksThroughAll() const { return batch_.count > embedding_.most_positions(); }
  [[nodiscard]] int64_t BlockAt(int64_t position) const {
    return IndexAt<Index>(indices_, position) / embedding_.block_rows();
  }
  [[nodiscard]] int64_t SizeOf(int64_t block) const {
    return embedding_.blocks() == 1 ? embedding_.count : LoadElement<int64_t>(sizes_, block);
  }
  [[nodiscard]] int64_t Advance(int64_t block) const {
    const auto before = LoadElement<int64_t>(sizes_, block);
    StoreElement<int64_t>(sizes_, block, before + 1);
    return before;
  }

  const Embedding& embedding_;
  const std::byte* const indices_;
  std::byte* const sizes_;  // of all blocks, and behind them positions
  Batch batch_{};
};

// Makes tiles of out, in one thread.
template <typename Index>
class WeightTiles {
 public:
  WeightTiles(const Embedding& embedding, const KernelArguments& arguments, const Positions<Index>& positions)
      : embedding_(embedding),
        arguments_(arguments),
        positions_(positions),
        grads_(arguments, embedding.grad, embedding.tile_columns()),
        sums_(embedding.block_rows() * embedding.tile_columns()),
        row_(embedding.tile_columns()),
        rows_(static_cast<size_t>(embedding.block_rows())),
        // One or two numbers have the same sum in float32, and then no others are needed.
        most_direct_(embedding.grad.type != embedding.out.type ? 0
                     : embedding.scales                        ? 1
                                                               : 2) {}

  void Make(int64_t block, int64_t left) {
    const int64_t first = block * embedding_.block_rows();
    const int64_t rows = std::min(embedding_.block_rows(), embedding_.weights - first);
    const int64_t width = std::min(embedding_.tile_columns(), embedding_.columns - left);
    std::fill(rows_.begin(), rows_.end(), Row{});
    ForIndices(block, [&](Row& row, int64_t, int64_t) { ++row.count; });
    ForIndices(block, [&](Row& of, int64_t row, int64_t position) {
      const int64_t earlier = std::exchange(of.latest, position);
      const int64_t cell = position * embedding_.columns + left;
      if (of.count <= most_direct_) {
        if (of.count == 2 && earlier < 0) return;
        WriteSum(cell, of.count == 1 ? -1 : earlier * embedding_.columns + left, TargetOf(first + row, left), width);
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
      const int64_t index = IndexAt<Index>(arguments_.inputs[1], position);
      if (index == embedding_.padding) return;
      const int64_t row = index - block * embedding_.block_rows();
      visit(rows_[static_cast<size_t>(row)], row, position);
    });
  }

  [[nodiscard]] int64_t TargetOf(int64_t row, int64_t left) const { return row * embedding_.columns + left; }

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
  const KernelArguments& arguments_;
  const Positions<Index>& positions_;
  const Floats grads_;
  const Scratch<double> sums_;
  const Scratch<float> row_;
  std::vector<Row> rows_;
  const int64_t most_direct_;  // indices of a row whose gradients are written without sums
};

template <typename Index>
void MakeBatch(const Embedding& embedding, const KernelArguments& arguments, const Positions<Index>& positions,
               const Batch& batch) {
  const int64_t across = (embedding.columns - 1) / embedding.tile_columns() + 1;
  const int64_t rows = batch.count + (batch.last - batch.first) * embedding.block_rows();
  const int64_t scratch_bytes = embedding.block_rows() * (embedding.tile_columns() + 2) * int64_t{sizeof(double)};
  const Tiles tiles{1, across * (batch.last - batch.first), 1, 1};
  const TileWork work{rows * embedding.columns, sizeof(uint16_t), scratch_bytes};
  arguments.pool.ParallelFor(tiles.count(), GrainOf(tiles, work), [&](int64_t begin, int64_t end) {
    WeightTiles<Index> weights(embedding, arguments, positions);
    for (int64_t tile = begin; tile < end; ++tile) {
      weights.Make(batch.first + tile / across, tile % across * embedding.tile_columns());
    }
  });
}

template <typename Index>
void MakeAll(const Embedding& embedding, const KernelArguments& arguments) {
  CheckIndices<Index>(embedding, arguments.inputs[1]);
  Positions<Index> positions(embedding, arguments);
  for (int64_t first = 0; first < embedding.blocks();) {
    const Batch batch = positions.From(first);
    positions.Order(batch);
    MakeBatch(embedding, arguments, positions, batch);
    first = batch.last;
  }
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
