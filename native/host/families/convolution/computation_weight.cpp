// The sums of the weight, which are its gradient: products of patches of the big tensor and the small one, over all
// positions.
#include <algorithm>
#include <array>
#include <cstring>

#include "families/convolution/computation.h"
#include "families/convolution/patches.h"
#include "families/gemm/computation.h"
#include "families/gemm/micro_kernel.h"
#include "plan/scratch.h"
#include "plan/scratch_slots.h"
#include "tensors/axes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// Rows of patches and channels of the small tensor, of a group.
struct Block {
  int64_t group;
  Range rows;
  Range channels;
};

template <typename T>
class WeightSums {
 public:
  WeightSums(const Gather& gather, const WeightBlocks& blocks, const KernelArguments& arguments)
      : gather_(gather),
        blocks_(blocks),
        arguments_(arguments),
        totals_(AlignedTo<std::byte>(arguments.scratch[0], kConvolutionAlignment)),
        sums_(totals_ + blocks.total_bytes),
        slots_(sums_ + blocks.held * blocks.sum_bytes, blocks.slots, static_cast<size_t>(blocks.slot_bytes())),
        tile_rows_(PartOf(blocks.rows, kRows)),
        is_dense_(gather.is_dense()) {}

  // As many blocks at a time as there is room for, or as many chunks of one.
  void Run() {
    const int64_t count = gather_.groups * blocks_.row_blocks * blocks_.channel_blocks;
    const int64_t chunks = std::min(blocks_.held, blocks_.chunks);
    const int64_t some = blocks_.held / chunks;
    for (int64_t block = 0; block < count; block += some) {
      const Range now{block, std::min(count, block + some)};
      for (int64_t chunk = 0; chunk < blocks_.chunks; chunk += chunks) {
        const Range of{chunk, std::min(blocks_.chunks, chunk + chunks)};
        MakeSome(now, of);
        AddUp(now, of);
      }
    }
  }

 private:
  static constexpr int64_t kBytes = sizeof(T);
  static constexpr int64_t kChannelsAtATime = 16;
  static constexpr int64_t kRowsAtATime = 64;

  [[nodiscard]] Block BlockAt(int64_t index) const {
    const int64_t channel = index % blocks_.channel_blocks * blocks_.channels;
    const int64_t row = index / blocks_.channel_blocks % blocks_.row_blocks * blocks_.rows;
    return {index / blocks_.channel_blocks / blocks_.row_blocks,
            {row, std::min(gather_.rows(), row + blocks_.rows)},
            {channel, std::min(gather_.results, channel + blocks_.channels)}};
  }

  void MakeSome(Range blocks, Range chunks) {
    const int64_t work = blocks_.rows * blocks_.channels * std::min(blocks_.chunk, gather_.columns());
    arguments_.pool.ParallelFor(blocks.size() * chunks.size(), kGrainWork / work + 1, [&](int64_t begin, int64_t end) {
      const ScratchSlots::Lease slot(slots_);
      for (int64_t index = begin; index < end; ++index) {
        const int64_t first = (chunks.begin + index % chunks.size()) * blocks_.chunk;
        MakeChunk(BlockAt(blocks.begin + index / chunks.size()),
                  {first, std::min(gather_.columns(), first + blocks_.chunk)}, slot.memory(),
                  sums_ + index * blocks_.sum_bytes);
      }
    });
  }

  void MakeChunk(const Block& block, Range columns, std::byte* memory, std::byte* sums) const {
    const Patches<T> patches(gather_, arguments_.inputs[1], block.group);
    float* const panels = FloatsAt(memory);
    float* const packed = FloatsAt(memory + blocks_.panel_bytes);
    const int64_t row_bytes = block.channels.size() * kFloatBytes;
    for (int64_t begin = columns.begin; begin < columns.end; begin += kDepthOfSum) {
      const Range some{begin, std::min(columns.end, begin + kDepthOfSum)};
      const Range taps = TapsOf(some);
      for (int64_t channel = block.channels.begin; channel < block.channels.end; channel += kTileColumns) {
        PackPanel(block.group, channel, std::min(kTileColumns, block.channels.end - channel), some,
                  panels + (channel - block.channels.begin) * some.size());
      }
      const int64_t group_rows = kGroupRows / kRows * tile_rows_;
      for (int64_t first = block.rows.begin; first < block.rows.end; first += group_rows) {
        const int64_t rows = std::min(group_rows, block.rows.end - first);
        if (!Reads(first, rows, taps)) {
          if (begin == columns.begin) {
            std::fill_n(FloatsAt(sums + (first - block.rows.begin) * row_bytes), rows * block.channels.size(), 0.0F);
          }
          continue;
        }
        patches.Pack(some.begin, some.size(), first, first + rows, kRowPitch, packed);
        for (int64_t channel = 0; channel < block.channels.size(); channel += kTileColumns) {
          const int64_t channels = std::min(kTileColumns, block.channels.size() - channel);
          for (int64_t row = 0; row < rows; row += tile_rows_) {
            MultiplyInPlace<LeftForm::kRows>(
                std::min(tile_rows_, rows - row), VectorsOf(channels), some.size(), packed + row * kRowPitch, kRowPitch,
                panels + channel * some.size(),
                {sums + (first + row - block.rows.begin) * row_bytes + channel * kFloatBytes, row_bytes, channels,
                 begin == columns.begin});
          }
        }
      }
    }
  }

  // From the first tap to the last one that reads the source for some columns.
  [[nodiscard]] Range TapsOf(Range columns) const {
    Range all{0, 0};
    const auto taps = gather_.TapsOf(columns.begin, columns.size());
    for (size_t i = 0; i < kConvolvedAxes; ++i) {
      all = {all.begin * gather_.axes[i].taps + taps[i].begin, all.end * gather_.axes[i].taps + taps[i].end - 1};
    }
    return {all.begin, all.end + 1};
  }

  // Whether some rows have such a tap.
  [[nodiscard]] bool Reads(int64_t first, int64_t rows, Range taps) const {
    const int64_t begin = first % gather_.taps();
    return taps.Meets({begin, begin + rows}) || taps.Meets({begin - gather_.taps(), begin + rows - gather_.taps()});
  }

  // Channels of the small tensor side by side, for each of some positions.
  void PackPanel(int64_t group, int64_t channel, int64_t channels, Range columns, float* to) const {
    const GatherStrides& small = gather_.result;
    const std::byte* const from =
        arguments_.inputs[0] + (small.first + group * small.group + channel * small.channel) * kBytes;
    const int64_t width = VectorsOf(channels) * kFloatLanes;
    ForPieces(gather_, columns.begin, columns.size(), is_dense_, [&](const Piece& piece) {
      int64_t offset = piece.image * small.outer;
      for (size_t i = 0; i < kConvolvedAxes; ++i) offset += piece.position[i] * gather_.axes[i].result_stride;
      MatrixLines<T>(from + offset * kBytes, small.channel, gather_.axes[kConvolvedAxes - 1].result_stride)
          .Pack(0, channels, 0, piece.count, width, to + piece.column * width);
    });
  }

  // Adds up the chunks of some blocks in order.
  void AddUp(Range blocks, Range chunks) {
    const int64_t strips = CeilOf(blocks_.channels, kChannelsAtATime);
    const int64_t work = blocks_.rows * kChannelsAtATime * chunks.size();
    arguments_.pool.ParallelFor(blocks.size() * strips, Grain(work), [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        const Block block = BlockAt(blocks.begin + index / strips);
        const int64_t channel = index % strips * kChannelsAtATime;
        const Range channels{channel, std::min(channel + kChannelsAtATime, block.channels.size())};
        if (channels.size() != 0) {
          AddStrip(block, channels, chunks, sums_ + index / strips * chunks.size() * blocks_.sum_bytes);
        }
      }
    });
  }

  // Of some channels of a block, a few rows at a time, which are side by side in the result.
  void AddStrip(const Block& block, Range channels, Range chunks, const std::byte* sums) const {
    const GatherStrides& weight = gather_.weight;
    const int64_t pitch = block.channels.size();
    std::array<float, kRowsAtATime * kChannelsAtATime> added;
    std::array<float, kRowsAtATime * kChannelsAtATime> turned;
    for (int64_t row = 0; row < block.rows.size(); row += kRowsAtATime) {
      const int64_t rows = std::min(kRowsAtATime, block.rows.size() - row);
      const std::byte* from = sums + (row * pitch + channels.begin) * kFloatBytes;
      int64_t from_pitch = pitch;
      if (blocks_.chunks > 1) {
        for (int64_t i = 0; i < rows; ++i) {
          AddChunks(from + i * pitch * kFloatBytes, (row + i) * pitch + channels.begin, channels.size(), chunks,
                    added.data() + i * kChannelsAtATime);
        }
        from = reinterpret_cast<const std::byte*>(added.data());
        from_pitch = kChannelsAtATime;
      }
      if (chunks.end != blocks_.chunks) continue;
      MatrixLines<float>(from, from_pitch, 1).PackLines(0, rows, 0, channels.size(), kRowsAtATime, turned.data());
      for (int64_t i = 0; i < channels.size(); ++i) {
        const int64_t first = block.group * weight.group + (block.channels.begin + channels.begin + i) * weight.outer +
                              block.rows.begin + row;
        RoundRow<T>(turned.data() + i * kRowsAtATime, arguments_.outputs[0] + first * kBytes, rows);
      }
    }
  }

  // Of a row, whose longer sums are carried from some chunks to the next.
  void AddChunks(const std::byte* sums, int64_t at, int64_t channels, Range chunks, float* to) const {
    std::array<double, kChannelsAtATime> totals{};
    std::byte* const carried = totals_ + at * int64_t{sizeof(double)};
    const auto bytes = static_cast<size_t>(channels) * sizeof(double);
    if (chunks.begin != 0) std::memcpy(totals.data(), carried, bytes);
    for (int64_t chunk = 0; chunk < chunks.size(); ++chunk) {
      for (int64_t i = 0; i < channels; ++i) {
        totals[static_cast<size_t>(i)] += double{LoadElement<float>(sums + chunk * blocks_.sum_bytes, i)};
      }
    }
    if (chunks.end != blocks_.chunks) std::memcpy(carried, totals.data(), bytes);
    for (int64_t i = 0; i < channels; ++i) to[i] = static_cast<float>(totals[static_cast<size_t>(i)]);
  }

  const Gather& gather_;
  const WeightBlocks& blocks_;
  const KernelArguments& arguments_;
  std::byte* const totals_;
  std::byte* const sums_;
  ScratchSlots slots_;
  const int64_t tile_rows_;
  const bool is_dense_;
};

}  // namespace

template <>
void SumsOfWeight<VECTOR_LEVEL>::Run(const Convolution& convolution, const WeightBlocks& blocks,
                                     const KernelArguments& arguments) {
  const Gather gather = GatherOfSmall(convolution);
  VisitFloatType(gather.type,
                 [&](auto tag) { WeightSums<typename decltype(tag)::Type>(gather, blocks, arguments).Run(); });
}

}  // namespace acl_host
