#include <algorithm>
#include <array>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "families/gathering/computation.h"
#include "families/gathering/indices.h"
#include "families/gathering/positions.h"
#include "plan/scratch.h"
#include "plan/tiles.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// Sums of elements of type T. Those of BOOL count.
template <typename T>
constexpr bool kIsWhole = std::is_integral_v<T> || std::is_same_v<T, Bool>;
template <typename T>
using Sum = std::conditional_t<kIsComplex<T>, std::complex<double>, std::conditional_t<kIsWhole<T>, uint64_t, double>>;

template <typename T>
[[nodiscard]] Sum<T> SumOf(const std::byte* base, int64_t index) {
  if constexpr (std::is_same_v<T, Bool>) {
    return LoadElement<Bool>(base, index).value != 0 ? 1 : 0;
  } else if constexpr (kIsComplex<T>) {
    const T element = LoadElement<T>(base, index);
    return {element.real(), element.imag()};
  } else {
    return static_cast<Sum<T>>(WidenElement<T>(base, index));
  }
}

template <typename T>
void StoreSum(std::byte* base, int64_t index, Sum<T> sum) {
  if constexpr (std::is_same_v<T, Bool>) {
    StoreElement(base, index, Bool{static_cast<uint8_t>(sum != 0)});
  } else if constexpr (kIsComplex<T>) {
    using Part = typename T::value_type;
    StoreElement(base, index, T(static_cast<Part>(sum.real()), static_cast<Part>(sum.imag())));
  } else {
    RoundElement<T>(base, index, static_cast<Wide<T>>(sum));
  }
}

template <typename T>
[[nodiscard]] auto FactorOf(const Alpha& alpha) {
  if constexpr (std::is_same_v<T, Bool>) {
    return uint64_t{alpha.integer != 0};
  } else if constexpr (kIsWhole<T>) {
    return static_cast<uint64_t>(alpha.integer);
  } else {
    return alpha.real;
  }
}

// Makes tiles of out, in one thread.
template <typename T, typename IndexAt>
class SliceTiles {
 public:
  SliceTiles(const AddedSlices& added, const RowBlocks& blocks, const KernelArguments& arguments,
             const IndexAt& index_at, const Positions<IndexAt>& positions)
      : blocks_(blocks),
        arguments_(arguments),
        index_at_(index_at),
        positions_(positions),
        factor_(FactorOf<T>(added.alpha)),
        sums_(blocks.block_rows() * blocks.tile_columns()),
        counts_(static_cast<size_t>(blocks.block_rows())) {}

  void Make(int64_t outer, int64_t block, int64_t left) {
    const int64_t first = block * blocks_.block_rows();
    const int64_t rows = std::min(blocks_.block_rows(), blocks_.rows - first);
    const int64_t width = std::min(blocks_.tile_columns(), blocks_.columns - left);
    const int64_t self = outer * blocks_.rows * blocks_.columns + left;
    const int64_t source = outer * blocks_.count * blocks_.columns + left;
    std::fill(counts_.begin(), counts_.end(), 0);
    positions_.ForBlock(block, [&](int64_t position) { ++CountOf(index_at_(position) - first); });
    positions_.ForBlock(block, [&](int64_t position) {
      const int64_t row = index_at_(position) - first;
      const int64_t from = source + position * blocks_.columns;
      const int64_t to = self + (first + row) * blocks_.columns;
      int64_t& count = CountOf(row);
      if (count == 1) return AddOnly(from, to, width);
      Sum<T>* const sums = sums_.data() + row * width;
      if (count > 0) {
        for (int64_t i = 0; i < width; ++i) sums[i] = SumOf<T>(arguments_.inputs[0], to + i);
        count = -1;
      }
      for (int64_t i = 0; i < width; ++i) sums[i] += factor_ * SumOf<T>(arguments_.inputs[2], from + i);
    });
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t to = self + (first + row) * blocks_.columns;
      const int64_t count = CountOf(row);
      if (count == 0) {
        std::memcpy(arguments_.outputs[0] + to * kBytes, arguments_.inputs[0] + to * kBytes,
                    static_cast<size_t>(width * kBytes));
      } else if (count < 0) {
        const Sum<T>* const sums = sums_.data() + row * width;
        for (int64_t i = 0; i < width; ++i) StoreSum<T>(arguments_.outputs[0], to + i, sums[i]);
      }
    }
  }

 private:
  static constexpr int64_t kBytes = sizeof(T);

  [[nodiscard]] int64_t& CountOf(int64_t row) { return counts_[static_cast<size_t>(row)]; }

  // To a row to which nothing else is added.
  void AddOnly(int64_t from, int64_t to, int64_t width) const {
    for (int64_t i = 0; i < width; ++i) {
      StoreSum<T>(arguments_.outputs[0], to + i,
                  SumOf<T>(arguments_.inputs[0], to + i) + factor_ * SumOf<T>(arguments_.inputs[2], from + i));
    }
  }

  const RowBlocks& blocks_;
  const KernelArguments& arguments_;
  const IndexAt& index_at_;
  const Positions<IndexAt>& positions_;
  const decltype(FactorOf<T>({})) factor_;
  const Scratch<Sum<T>> sums_;
  std::vector<int64_t> counts_;  // of what is added to each row; -1 once there are sums
};

template <typename T, typename Index>
void AddAllSlices(const AddedSlices& added, const KernelArguments& arguments) {
  const Slices& slices = added.slices;
  const RowBlocks blocks = added.blocks();
  CheckIndices<Index>(slices.name, arguments.inputs[1], slices.count, 1, slices.positions);
  const auto index_at = [index = arguments.inputs[1]](int64_t position) { return IndexAt<Index>(index, position); };
  Positions positions(blocks, index_at, blocks.numbers() == 0 ? nullptr : arguments.scratch[0]);
  positions.ForBatches([&](const Batch& batch) {
    const int64_t across = blocks.tiles_across();
    const int64_t made = batch.last - batch.first;
    const int64_t rows = batch.count + made * blocks.block_rows();
    const int64_t scratch_bytes = blocks.block_rows() * (blocks.tile_columns() + 1) * int64_t{sizeof(Sum<T>)};
    const Tiles tiles{1, slices.outer * made * across, 1, 1};
    const TileWork work{slices.outer * rows * blocks.columns, sizeof(T), scratch_bytes};
    arguments.pool.ParallelFor(tiles.count(), GrainOf(tiles, work), [&](int64_t begin, int64_t end) {
      SliceTiles<T, std::remove_const_t<decltype(index_at)>> sums(added, blocks, arguments, index_at, positions);
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t block = batch.first + tile / across % made;
        sums.Make(tile / across / made, block, tile % across * blocks.tile_columns());
      }
    });
  });
}

// Lines of positions whose sums a thread can have at a time. The shorter steps through the index are the inner loop's.
template <typename T, typename Index>
void AddLines(const AddedElements& added, const KernelArguments& arguments) {
  const std::array<int64_t, 3>& steps = added.walk.row().steps;
  const int64_t lines = added.walk.unit_elements();
  const bool is_along = std::abs(added.along.index) < std::abs(steps[0]);
  const Tiles tiles{1, added.walk.units(), 1, 1};
  const TileWork work{added.walk.units() * lines * (added.positions + added.along.size), sizeof(T),
                      lines * added.positions * int64_t{sizeof(Sum<T>)}};
  arguments.pool.ParallelFor(tiles.count(), GrainOf(tiles, work), [&](int64_t begin, int64_t end) {
    const Scratch<Sum<T>> memory(lines * added.positions);
    Sum<T>* const sums = memory.data();
    added.walk.ForUnits(begin, end, [&](const auto& places, int64_t count) {
      const int64_t position_pitch = is_along ? 1 : count;
      const int64_t line_pitch = is_along ? added.positions : 1;
      const auto for_all = [&](int64_t along, const auto& visit) {
        const int64_t outer = is_along ? count : along;
        const int64_t inner = is_along ? along : count;
        for (int64_t i = 0; i < outer; ++i) {
          for (int64_t j = 0; j < inner; ++j) is_along ? visit(j, i) : visit(i, j);
        }
      };
      const auto cell = [&](int64_t position, int64_t line) {
        return places[2] + position * added.position_step + line * steps[2];
      };
      const std::byte* const index = arguments.inputs[1] + places[0] * int64_t{sizeof(Index)};
      for (int64_t i = 0; i < (is_along ? count : added.along.size); ++i) {
        const int64_t first = i * (is_along ? steps[0] : added.along.index);
        CheckIndices<Index>(added.name, index + first * int64_t{sizeof(Index)}, is_along ? added.along.size : count,
                            is_along ? added.along.index : steps[0], added.positions);
      }
      for_all(added.positions, [&](int64_t position, int64_t line) {
        sums[position * position_pitch + line * line_pitch] = SumOf<T>(arguments.inputs[0], cell(position, line));
      });
      for_all(added.along.size, [&](int64_t i, int64_t line) {
        const auto position = IndexAt<Index>(index, i * added.along.index + line * steps[0]);
        sums[position * position_pitch + line * line_pitch] +=
            SumOf<T>(arguments.inputs[2], places[1] + i * added.along.source + line * steps[1]);
      });
      for_all(added.positions, [&](int64_t position, int64_t line) {
        StoreSum<T>(arguments.outputs[0], cell(position, line), sums[position * position_pitch + line * line_pitch]);
      });
    });
  });
}

// Of one line of many positions.
template <typename T, typename Index>
void AddLongLine(const AddedElements& added, const std::array<int64_t, 3>& places, const KernelArguments& arguments) {
  const RowBlocks blocks = added.blocks();
  const auto index_at = [&, first = places[0]](int64_t i) {
    return IndexAt<Index>(arguments.inputs[1], first + i * added.along.index);
  };
  CheckIndices<Index>(added.name, arguments.inputs[1] + places[0] * int64_t{sizeof(Index)}, added.along.size,
                      added.along.index, added.positions);
  Positions positions(blocks, index_at, arguments.scratch[0]);
  positions.ForBatches([&](const Batch& batch) {
    const Tiles tiles{1, batch.last - batch.first, 1, 1};
    const TileWork work{batch.count + tiles.count() * blocks.block_rows(), sizeof(T),
                        blocks.block_rows() * int64_t{sizeof(Sum<T>)}};
    arguments.pool.ParallelFor(tiles.count(), GrainOf(tiles, work), [&](int64_t begin, int64_t end) {
      const Scratch<Sum<T>> sums(blocks.block_rows());
      for (int64_t block = batch.first + begin; block < batch.first + end; ++block) {
        const int64_t first = block * blocks.block_rows();
        const int64_t rows = std::min(blocks.block_rows(), blocks.rows - first);
        const auto cell = [&](int64_t row) { return places[2] + (first + row) * added.position_step; };
        for (int64_t row = 0; row < rows; ++row) sums.data()[row] = SumOf<T>(arguments.inputs[0], cell(row));
        positions.ForBlock(block, [&](int64_t i) {
          sums.data()[index_at(i) - first] += SumOf<T>(arguments.inputs[2], places[1] + i * added.along.source);
        });
        for (int64_t row = 0; row < rows; ++row) StoreSum<T>(arguments.outputs[0], cell(row), sums.data()[row]);
      }
    });
  });
}

template <typename T, typename Index>
void AddAllElements(const AddedElements& added, const KernelArguments& arguments) {
  if (added.blocks().blocks() == 1) return AddLines<T, Index>(added, arguments);
  added.walk.ForUnits(0, added.walk.units(),
                      [&](const auto& places, int64_t) { AddLongLine<T, Index>(added, places, arguments); });
}

template <typename Visitor>
void VisitTypes(aclDataType type, aclDataType index_type, const Visitor& visit) {
  VisitNumberType(type, [&](auto tag) { VisitIndexType(index_type, [&](auto index) { visit(tag, index); }); });
}

}  // namespace

template <>
void AddSlices<VECTOR_LEVEL>::Run(const AddedSlices& added, const KernelArguments& arguments) {
  VisitTypes(added.slices.type, added.slices.index_type, [&](auto tag, auto index) {
    AddAllSlices<typename decltype(tag)::Type, typename decltype(index)::Type>(added, arguments);
  });
}

template <>
void AddElements<VECTOR_LEVEL>::Run(const AddedElements& added, const KernelArguments& arguments) {
  if (added.copy_bytes > 0) {
    constexpr uint64_t kPartBytes = 1 << 18;
    const auto parts = static_cast<int64_t>((added.copy_bytes - 1) / kPartBytes + 1);
    arguments.pool.ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
      const auto first = static_cast<uint64_t>(begin) * kPartBytes;
      const uint64_t last = std::min(static_cast<uint64_t>(end) * kPartBytes, added.copy_bytes);
      std::memcpy(arguments.outputs[0] + first, arguments.inputs[0] + first, last - first);
    });
  }
  VisitTypes(added.type, added.index_type, [&](auto tag, auto index) {
    AddAllElements<typename decltype(tag)::Type, typename decltype(index)::Type>(added, arguments);
  });
}

}  // namespace acl_host
