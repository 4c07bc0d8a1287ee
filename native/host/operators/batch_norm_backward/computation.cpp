// With xhat = (input - mean) * invstd and n values in a channel:
//   gradBias = sum(gradOut), gradWeight = sum(gradOut * xhat)
//   gradInput = weight * invstd * (gradOut - (gradBias + xhat * gradWeight) / n) when training,
//   gradInput = weight * invstd * gradOut otherwise.
//
// Products are added in float, in lanes of a part of the channel, and parts in double. Neighbouring channels are
// computed together, as a block, so that the cache lines of short rows are read once.
#include "computation.h"

#include <algorithm>
#include <cmath>

#include "plan/scratch.h"
#include "sums.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// Of each channel from the first on.
struct Channels {
  int64_t first;
  int64_t part_sums;  // that a channel keeps: one for each part, or one for all
  Part* parts;
  double* invstd;
  float* mean;
  float* grad_scale;
  float* input_scale;
  float* shift;
};

Channels Divide(std::byte* memory, int64_t first, int64_t count, int64_t part_sums) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  memory += (kNormAlignment - address % kNormAlignment) % kNormAlignment;
  Channels channels{};
  channels.first = first;
  channels.part_sums = part_sums;
  channels.invstd = reinterpret_cast<double*>(memory);
  channels.parts = reinterpret_cast<Part*>(channels.invstd + count);
  channels.mean = reinterpret_cast<float*>(channels.parts + count * part_sums);
  channels.grad_scale = channels.mean + count;
  channels.input_scale = channels.grad_scale + count;
  channels.shift = channels.input_scale + count;
  return channels;
}

[[nodiscard]] float LoadChannel(const ChannelInput& input, const KernelArguments& arguments, int64_t channel) {
  if (input.index < 0) return input.absent;
  float value = 0;
  VisitFloatType(input.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    value = LoadWide<T>(arguments.inputs[static_cast<size_t>(input.index)], channel);
  });
  return value;
}

void StoreChannel(const NormOutput& output, const KernelArguments& arguments, int64_t channel, double value) {
  if (!output.is_wanted()) return;
  VisitFloatType(output.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    StoreRounded<T>(arguments.outputs[static_cast<size_t>(output.index)], channel, static_cast<float>(value));
  });
}

template <typename T>
class Kernel {
 public:
  Kernel(const BatchNorm& norm, const KernelArguments& arguments, const Channels& channels)
      : norm_(norm),
        arguments_(arguments),
        channels_(channels),
        grad_out_(arguments.inputs[0]),
        input_(norm.reads_input() ? arguments.inputs[1] : nullptr),
        block_channels_(norm.block_channels()) {}

  // One block at a time, with the channels of one.
  static void RunBlocks(const BatchNorm& norm, const KernelArguments& arguments) {
    const int64_t count = norm.block_channels();
    const int64_t elements = count * norm.cells * norm.samples;
    arguments.pool.ParallelFor(norm.blocks(), Grain(elements), [&](int64_t begin, int64_t end) {
      constexpr uint64_t kBytes = kNormPartBytes + kNormChannelBytes;
      const Scratch<double> memory(count * static_cast<int64_t>(kBytes / sizeof(double)));
      for (int64_t block = begin; block < end; ++block) {
        const Kernel kernel(norm, arguments,
                            Divide(reinterpret_cast<std::byte*>(memory.data()), block * count, count, /*part_sums=*/1));
        kernel.Prepare(block);
        if (norm.needs_sums()) kernel.Sum(block, 0, norm.parts());
        kernel.Finish(block);
        if (norm.grad_input.is_wanted()) kernel.Write(block, 0, norm.parts());
      }
    });
  }

  // All blocks together, with all channels.
  void RunParts() const {
    const int64_t blocks = norm_.blocks();
    const int64_t parts = norm_.parts();
    const int64_t part_elements = block_channels_ * norm_.part_samples() * norm_.part_cells();
    const auto for_parts = [&](auto run) {
      arguments_.pool.ParallelFor(blocks * parts, Grain(part_elements), [&](int64_t begin, int64_t end) {
        while (begin < end) {
          const int64_t first = begin % parts;
          const int64_t last = std::min(parts, first + end - begin);
          run(begin / parts, first, last);
          begin += last - first;
        }
      });
    };
    for (int64_t block = 0; block < blocks; ++block) Prepare(block);
    if (norm_.needs_sums()) {
      for_parts([&](int64_t block, int64_t first, int64_t last) { Sum(block, first, last); });
    }
    for (int64_t block = 0; block < blocks; ++block) Finish(block);
    if (norm_.grad_input.is_wanted()) {
      for_parts([&](int64_t block, int64_t first, int64_t last) { Write(block, first, last); });
    }
  }

 private:
  [[nodiscard]] int64_t FirstOf(int64_t block) const { return block * block_channels_; }
  [[nodiscard]] int64_t EndOf(int64_t block) const { return std::min(norm_.channels, (block + 1) * block_channels_); }

  [[nodiscard]] int64_t Place(int64_t channel) const { return channel - channels_.first; }

  void AddPart(int64_t channel, int64_t part, const Part& sum) const {
    Part& sums = channels_.parts[Place(channel) * channels_.part_sums + part % channels_.part_sums];
    sums.grad += sum.grad;
    sums.dot += sum.dot;
  }

  void Prepare(int64_t block) const {
    for (int64_t channel = FirstOf(block); channel < EndOf(block); ++channel) {
      const double spread = LoadChannel(norm_.spread, arguments_, channel);
      channels_.mean[Place(channel)] = LoadChannel(norm_.mean, arguments_, channel);
      channels_.invstd[Place(channel)] =
          norm_.spread_is_variance ? 1 / std::sqrt(spread + static_cast<double>(norm_.eps)) : spread;
      std::fill_n(channels_.parts + Place(channel) * channels_.part_sums, channels_.part_sums, Part{});
    }
  }

  void Sum(int64_t block, int64_t first, int64_t last) const {
    for (int64_t part = first; part < last; ++part) {
      if (norm_.cells == 1) {
        norm_.reads_input() ? SumColumns<true>(block, part) : SumColumns<false>(block, part);
      } else {
        norm_.reads_input() ? SumRows<true>(block, part) : SumRows<false>(block, part);
      }
    }
  }

  // Calls visit(element) with the first element of each sample of the part, of a channel.
  template <typename Visit>
  void ForSamples(int64_t channel, int64_t part, const Visit& visit) const {
    const int64_t pieces = norm_.pieces();
    const int64_t first = part / pieces * norm_.part_samples();
    const int64_t end = std::min(norm_.samples, first + norm_.part_samples());
    const int64_t cell = part % pieces * norm_.part_cells();
    for (int64_t sample = first; sample < end; ++sample) {
      visit((sample * norm_.channels + channel) * norm_.cells + cell);
    }
  }

  [[nodiscard]] int64_t CellsOf(int64_t part) const {
    return std::min(norm_.part_cells(), norm_.cells - part % norm_.pieces() * norm_.part_cells());
  }

  [[nodiscard]] static const std::byte* ElementAt(const std::byte* base, int64_t element) {
    return base + static_cast<size_t>(element) * sizeof(T);
  }

  template <bool kReadsInput>
  void SumRows(int64_t block, int64_t part) const {
    const int64_t count = CellsOf(part);
    FloatRow<T> grads;
    FloatRow<T> inputs;
    for (int64_t channel = FirstOf(block); channel < EndOf(block); ++channel) {
      Lanes lanes;
      ForSamples(channel, part, [&](int64_t element) {
        const std::byte* const grad = grads.Of(ElementAt(grad_out_, element), count);
        const std::byte* const input = kReadsInput ? inputs.Of(ElementAt(input_, element), count) : nullptr;
        AddFloats<kReadsInput>(grad, input, channels_.mean[Place(channel)], count, lanes);
      });
      AddPart(channel, part, lanes.Sum());
    }
  }

  // Samples of one cell: the channels of a block lie side by side.
  template <bool kReadsInput>
  void SumColumns(int64_t block, int64_t part) const {
    const int64_t first = FirstOf(block);
    const int64_t count = EndOf(block) - first;
    float grad_sums[BatchNorm::kBlockElements] = {};
    float dots[BatchNorm::kBlockElements] = {};
    FloatRow<T> grads;
    FloatRow<T> inputs;
    ForSamples(first, part, [&](int64_t element) {
      const std::byte* const grad = grads.Of(ElementAt(grad_out_, element), count);
      const std::byte* const input = kReadsInput ? inputs.Of(ElementAt(input_, element), count) : nullptr;
      AddColumns<kReadsInput>(grad, input, channels_.mean + Place(first), count, grad_sums, dots);
    });
    for (int64_t i = 0; i < count; ++i) {
      AddPart(first + i, part, {double{grad_sums[i]}, double{dots[i]}});
    }
  }

  // Adds up the parts, writes the gradients of weight and bias, and prepares that of the input.
  void Finish(int64_t block) const {
    const double count = static_cast<double>(norm_.samples) * static_cast<double>(norm_.cells);
    for (int64_t channel = FirstOf(block); channel < EndOf(block); ++channel) {
      Part sum;
      const Part* const parts = channels_.parts + Place(channel) * channels_.part_sums;
      for (int64_t part = 0; part < channels_.part_sums; ++part) {
        sum.grad += parts[part].grad;
        sum.dot += parts[part].dot;
      }
      const double invstd = channels_.invstd[Place(channel)];
      StoreChannel(norm_.grad_weight, arguments_, channel, sum.dot * invstd);
      StoreChannel(norm_.grad_bias, arguments_, channel, sum.grad);
      const double scale = double{LoadChannel(norm_.weight, arguments_, channel)} * invstd;
      channels_.grad_scale[Place(channel)] = static_cast<float>(scale);
      channels_.input_scale[Place(channel)] = static_cast<float>(-scale * invstd * (invstd * sum.dot) / count);
      channels_.shift[Place(channel)] = static_cast<float>(-scale * sum.grad / count);
    }
  }

  void Write(int64_t block, int64_t first, int64_t last) const {
    for (int64_t part = first; part < last; ++part) {
      norm_.training ? WritePart<true>(block, part) : WritePart<false>(block, part);
    }
  }

  template <bool kTraining>
  void WritePart(int64_t block, int64_t part) const {
    const int64_t first = FirstOf(block);
    if (norm_.cells == 1) {
      const Scales<const float*> scales{channels_.grad_scale + Place(first), channels_.input_scale + Place(first),
                                        channels_.mean + Place(first), channels_.shift + Place(first)};
      return WriteRows<kTraining>(first, part, EndOf(block) - first, scales);
    }
    for (int64_t channel = first; channel < EndOf(block); ++channel) {
      const Scales<float> scales{channels_.grad_scale[Place(channel)], channels_.input_scale[Place(channel)],
                                 channels_.mean[Place(channel)], channels_.shift[Place(channel)]};
      WriteRows<kTraining>(channel, part, CellsOf(part), scales);
    }
  }

  template <bool kTraining, typename Scale>
  void WriteRows(int64_t channel, int64_t part, int64_t count, const Scales<Scale>& scales) const {
    std::byte* const output = arguments_.outputs[static_cast<size_t>(norm_.grad_input.index)];
    FloatRow<T> grads;
    FloatRow<T> inputs;
    float row[std::is_same_v<T, float> ? 1 : BatchNorm::kMostPart];
    ForSamples(channel, part, [&](int64_t element) {
      const std::byte* const grad = grads.Of(ElementAt(grad_out_, element), count);
      const std::byte* const input = kTraining ? inputs.Of(ElementAt(input_, element), count) : nullptr;
      std::byte* const to = output + static_cast<size_t>(element) * sizeof(T);
      if constexpr (std::is_same_v<T, float>) {
        ScaleRow<kTraining>(grad, input, count, scales, to);
      } else {
        ScaleRow<kTraining>(grad, input, count, scales, reinterpret_cast<std::byte*>(row));
        RoundRow<T>(row, to, count);
      }
    });
  }

  const BatchNorm& norm_;
  const KernelArguments& arguments_;
  const Channels channels_;
  const std::byte* const grad_out_;
  const std::byte* const input_;
  const int64_t block_channels_;
};

}  // namespace

template <>
void BatchNormBackward<VECTOR_LEVEL>::Run(const BatchNorm& norm, const KernelArguments& arguments) {
  VisitFloatType(norm.type, [&](auto tag) {
    using Typed = Kernel<typename decltype(tag)::Type>;
    if (norm.has_many_blocks()) return Typed::RunBlocks(norm, arguments);
    Typed(norm, arguments, Divide(arguments.scratch[0], 0, norm.channels, norm.parts())).RunParts();
  });
}

}  // namespace acl_host
