// The sums of the small and the big tensor: products of the weight and patches of the other one.
#include <algorithm>

#include "families/convolution/bias.h"
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

constexpr int64_t kLongDepth = 4096;

// Channels and columns of results of a group.
struct Unit {
  int64_t group;
  Range channels;
  Range columns;
};

template <typename T>
class TensorSums {
 public:
  // `bias` is null, or has a number for each channel of the result.
  TensorSums(const Gather& gather, const TensorBlocks& blocks, const KernelArguments& arguments, const float* bias)
      : gather_(gather),
        blocks_(blocks),
        arguments_(arguments),
        bias_(bias),
        memory_(AlignedTo<std::byte>(arguments.scratch[0], kConvolutionAlignment)),
        tile_rows_(PartOf(std::min(gather.results, blocks.channels), kRows)),
        pass_(PartOf(gather.rows(), kDepthOfSum)),
        is_dense_(gather.is_dense()),
        has_rows_side_by_side_(gather.has_rows_side_by_side()) {}

  void Run() const {
    if (gather_.columns() == 0) return;
    if (blocks_.weight_bytes != 0) PackWeight();
    const int64_t columns =
        PartOf(CeilOf(gather_.columns(), kTileColumns), blocks_.columns / kTileColumns) * kTileColumns;
    const int64_t of_columns = CeilOf(gather_.columns(), columns);
    const int64_t of_channels = CeilOf(gather_.results, blocks_.channels);
    const int64_t work = blocks_.channels * columns * std::min(gather_.rows(), kLongDepth);
    ScratchSlots slots(memory_ + blocks_.weight_bytes, blocks_.slots, static_cast<size_t>(blocks_.slot_bytes()));
    arguments_.pool.ParallelFor(gather_.groups * of_columns * of_channels, kGrainWork / work + 1,
                                [&](int64_t begin, int64_t end) {
                                  const ScratchSlots::Lease slot(slots);
                                  for (int64_t index = begin; index < end; ++index) {
                                    const int64_t channel = index % of_channels * blocks_.channels;
                                    const int64_t column = index / of_channels % of_columns * columns;
                                    const Unit unit{index / of_channels / of_columns,
                                                    {channel, std::min(gather_.results, channel + blocks_.channels)},
                                                    {column, std::min(gather_.columns(), column + columns)}};
                                    MakeWithTaps(unit, slot.memory());
                                  }
                                });
  }

 private:
  static constexpr int64_t kBytes = sizeof(T);
  static constexpr int64_t kStretch = 128;

  // Panels of the weight of all groups, one after the other, each with all rows.
  void PackWeight() const {
    const int64_t panels = CeilOf(gather_.results, tile_rows_);
    const int64_t work = tile_rows_ * std::min(gather_.rows(), kLongDepth);
    arguments_.pool.ParallelFor(gather_.groups * panels, Grain(work), [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        const int64_t channel = index % panels * tile_rows_;
        PackPanel(index / panels, channel, std::min(tile_rows_, gather_.results - channel), {0, gather_.rows()},
                  PanelAt(index / panels, channel));
      }
    });
  }

  [[nodiscard]] float* PanelAt(int64_t group, int64_t channel) const {
    return FloatsAt(memory_) + (group * gather_.results + channel) * gather_.rows();
  }

  void PackPanel(int64_t group, int64_t channel, int64_t channels, Range rows, float* to) const {
    const GatherStrides& weight = gather_.weight;
    const std::byte* const from =
        arguments_.inputs[1] + (weight.first + group * weight.group + channel * weight.outer) * kBytes;
    if (has_rows_side_by_side_) {
      return MatrixLines<T>(from, weight.outer, 1).PackLines(0, channels, rows.begin, rows.end, channels, to);
    }
    // Of each tap, a few channels, whose taps lie between one another.
    const int64_t taps = gather_.taps();
    const int64_t stretch = std::max<int64_t>(kStretch / taps, 1) * taps;
    for (int64_t begin = rows.begin; begin < rows.end; begin += stretch) {
      const int64_t end = std::min(rows.end, begin + stretch);
      for (int64_t row = begin; row < std::min(end, begin + taps); ++row) {
        int64_t offset = row / taps * weight.channel;
        int64_t tap = row % taps;
        for (size_t i = kConvolvedAxes; i-- > 0;) {
          offset += tap % gather_.axes[i].taps * gather_.axes[i].weight_stride;
          tap /= gather_.axes[i].taps;
        }
        MatrixLines<T>(from + offset * kBytes, weight.outer, weight.channel)
            .PackLines(0, channels, 0, CeilOf(end - row, taps), channels * taps, to + (row - rows.begin) * channels);
      }
    }
  }

  // A large kernel may have many taps that read nothing for a unit.
  void MakeWithTaps(const Unit& unit, std::byte* memory) const {
    const auto taps = gather_.TapsOf(unit.columns.begin, unit.columns.size());
    if (2 * taps[0].size() * taps[1].size() * taps[2].size() > gather_.taps()) return Make(unit, memory);
    const Gather gather = gather_.WithTaps(taps);
    TensorBlocks blocks = blocks_;
    blocks.weight_bytes = 0;
    TensorSums(gather, blocks, arguments_, bias_).Make(unit, memory);
  }

  void Make(const Unit& unit, std::byte* memory) const {
    const Patches<T> patches(gather_, arguments_.inputs[0], unit.group);
    float* const packed = FloatsAt(memory);
    float* const panels = FloatsAt(memory + blocks_.patch_bytes);
    for (int64_t begin = 0; begin < gather_.rows(); begin += pass_) {
      const Range rows{begin, std::min(gather_.rows(), begin + pass_)};
      for (int64_t column = unit.columns.begin; column < unit.columns.end; column += kTileColumns) {
        const int64_t columns = std::min(kTileColumns, unit.columns.end - column);
        const int64_t width = VectorsOf(columns) * kFloatLanes;
        float* const to = packed + (column - unit.columns.begin) * rows.size();
        patches.Pack(column, columns, rows.begin, rows.end, width, to);
        if (columns == width) continue;
        for (int64_t k = 0; k < rows.size(); ++k) std::fill(to + k * width + columns, to + (k + 1) * width, 0.0F);
      }
      const int64_t group_rows = kGroupRows / kRows * tile_rows_;
      for (int64_t channel = unit.channels.begin; channel < unit.channels.end; channel += group_rows) {
        MakeGroup(unit, {channel, std::min(unit.channels.end, channel + group_rows)}, rows, packed, panels,
                  memory + blocks_.patch_bytes + blocks_.panel_bytes);
      }
    }
  }

  // Adds the products of some rows of patches to the results of some channels.
  void MakeGroup(const Unit& unit, Range channels, Range rows, const float* packed, float* panels,
                 std::byte* sums) const {
    const bool is_shared = blocks_.weight_bytes != 0;
    const int64_t row_bytes = unit.columns.size() * kFloatBytes;
    if (!is_shared) {
      for (int64_t channel = channels.begin; channel < channels.end; channel += tile_rows_) {
        PackPanel(unit.group, channel, std::min(tile_rows_, channels.end - channel), rows,
                  panels + (channel - channels.begin) * rows.size());
      }
    }
    for (int64_t column = unit.columns.begin; column < unit.columns.end; column += kTileColumns) {
      const int64_t columns = std::min(kTileColumns, unit.columns.end - column);
      std::byte* const direct = InPlace(unit, column, columns);
      for (int64_t channel = channels.begin; channel < channels.end; channel += tile_rows_) {
        const int64_t lines = std::min(tile_rows_, channels.end - channel);
        const float* const left = is_shared ? PanelAt(unit.group, channel) + rows.begin * lines
                                            : panels + (channel - channels.begin) * rows.size();
        SumTile to = direct != nullptr ? SumTile{direct + channel * gather_.result.channel * kFloatBytes,
                                                 gather_.result.channel * kFloatBytes, columns, rows.begin == 0}
                                       : SumTile{sums + (channel - unit.channels.begin) * row_bytes +
                                                     (column - unit.columns.begin) * kFloatBytes,
                                                 row_bytes, columns, rows.begin == 0};
        if (bias_ != nullptr && rows.end == gather_.rows()) to.added = bias_ + unit.group * gather_.results + channel;
        MultiplyTile(lines, VectorsOf(columns), rows.size(), left, packed + (column - unit.columns.begin) * rows.size(),
                     to);
      }
      if (rows.end != gather_.rows() || direct != nullptr) continue;
      for (int64_t channel = channels.begin; channel < channels.end; ++channel) {
        Finish(unit, channel, column, columns,
               sums + (channel - unit.channels.begin) * row_bytes + (column - unit.columns.begin) * kFloatBytes);
      }
    }
  }

  [[nodiscard]] int64_t ResultOffset(const Unit& unit, int64_t channel, const Piece& piece) const {
    int64_t offset = gather_.result.first + unit.group * gather_.result.group + piece.image * gather_.result.outer +
                     channel * gather_.result.channel;
    for (size_t i = 0; i < kConvolvedAxes; ++i) offset += piece.position[i] * gather_.axes[i].result_stride;
    return offset;
  }

  // Where the results of the first channel are, if the sums of these columns can be added up there; otherwise null.
  [[nodiscard]] std::byte* InPlace(const Unit& unit, int64_t column, int64_t columns) const {
    if constexpr (!std::is_same_v<T, float>) return nullptr;
    if (!is_dense_ || column / gather_.positions() != (column + columns - 1) / gather_.positions()) return nullptr;
    const Piece piece{0, columns, column / gather_.positions(), {0, 0, column % gather_.positions()}};
    return arguments_.outputs[0] + ResultOffset(unit, 0, piece) * kBytes;
  }

  void Finish(const Unit& unit, int64_t channel, int64_t column, int64_t columns, const std::byte* sums) const {
    const int64_t stride = gather_.axes[kConvolvedAxes - 1].result_stride;
    ForPieces(gather_, column, columns, is_dense_, [&](const Piece& piece) {
      const auto* const from = reinterpret_cast<const float*>(sums) + piece.column;
      std::byte* const to = arguments_.outputs[0] + ResultOffset(unit, channel, piece) * kBytes;
      if (stride == 1) return RoundRow<T>(from, to, piece.count);
      for (int64_t i = 0; i < piece.count; ++i) RoundElement<T>(to, i * stride, from[i]);
    });
  }

  const Gather& gather_;
  const TensorBlocks& blocks_;
  const KernelArguments& arguments_;
  const float* const bias_;
  std::byte* const memory_;
  const int64_t tile_rows_;
  const int64_t pass_;
  const bool is_dense_;
  const bool has_rows_side_by_side_;
};

template <typename T>
void MakeSmall(const Convolution& convolution, const TensorBlocks& blocks, const KernelArguments& arguments) {
  const float* const bias = WidenedBias<T>(arguments, convolution.groups * convolution.small_channels);
  const Gather gather = GatherOfSmall(convolution);
  TensorSums<T>(gather, blocks, arguments, bias).Run();
}

// The bias of each plane of the big tensor, or zeros, for the positions that no tap touches.
template <typename T>
void FillPlanes(const Convolution& convolution, const float* bias, const KernelArguments& arguments) {
  const int64_t channels = convolution.groups * convolution.big_channels;
  int64_t plane = 1;
  for (const ConvolvedAxis& axis : convolution.axes) plane *= axis.big;
  arguments.pool.ParallelFor(convolution.images * channels * plane, kGrainWork, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t count = std::min(end, (begin / plane + 1) * plane) - begin;
      const FloatLanes filled = Repeated(bias == nullptr ? 0 : bias[begin / plane % channels]);
      std::byte* const to = arguments.outputs[0] + begin * int64_t{sizeof(T)};
      ForLanes(count, [&](int64_t i, auto lanes) { StoreLanes<T>(filled, to, i, lanes); });
      begin += count;
    }
  });
}

template <typename T>
void MakeBig(const Convolution& convolution, const TensorBlocks& blocks, const KernelArguments& arguments) {
  const float* const bias = WidenedBias<T>(arguments, convolution.groups * convolution.big_channels);
  const PhasesOfBig phases(convolution);
  if (!phases.are_all()) FillPlanes<T>(convolution, bias, arguments);
  for (int64_t i = 0; i < phases.count(); ++i) {
    const Gather gather = phases.At(i);
    TensorSums<T>(gather, blocks, arguments, bias).Run();
  }
}

}  // namespace

template <>
void SumsOfSmall<VECTOR_LEVEL>::Run(const Convolution& convolution, const TensorBlocks& blocks,
                                    const KernelArguments& arguments) {
  VisitFloatType(convolution.type,
                 [&](auto tag) { MakeSmall<typename decltype(tag)::Type>(convolution, blocks, arguments); });
}

template <>
void SumsOfBig<VECTOR_LEVEL>::Run(const Convolution& convolution, const TensorBlocks& blocks,
                                  const KernelArguments& arguments) {
  VisitFloatType(convolution.type,
                 [&](auto tag) { MakeBig<typename decltype(tag)::Type>(convolution, blocks, arguments); });
}

}  // namespace acl_host
