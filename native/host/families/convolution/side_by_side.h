// Depthwise convolutions of small planes: a vector has an element of each of several channels.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "families/convolution/depthwise.h"
#include "families/convolution/depthwise_rows.h"
#include "families/convolution/depthwise_slots.h"
#include "families/convolution/depthwise_sums.h"
#include "families/gemm/micro_kernel.h"
#include "families/gemm/packing.h"
#include "tensors/axes.h"

namespace acl_host {
namespace {

template <typename T>
class SideBySide {
 public:
  SideBySide(const Convolution& convolution, const Depthwise& depthwise, const KernelArguments& arguments)
      : convolution_(convolution), depthwise_(depthwise), arguments_(arguments) {}

  // The sums of one of both tensors, whose bias may be null. Images follow one another, so that weights are read once
  // for some.
  void GatherAll(const ConvolvedStrides& source, const float* bias) const {
    const int64_t channels = convolution_.groups;
    const int64_t made = (channels + kFloatLanes - 1) / kFloatLanes;
    const int64_t work = depthwise_.results() * depthwise_.taps * kFloatLanes;
    ForSlots(
        depthwise_, arguments_.pool, arguments_.scratch[0], made * convolution_.images, work,
        [&](int64_t index, const Slot& slot, bool is_first) {
          const int64_t image = index % convolution_.images;
          const int64_t channel = index / convolution_.images * kFloatLanes;
          const int64_t count = std::min(kFloatLanes, channels - channel);
          if (is_first || image == 0) ReadWeights(channel, count, slot.numbers);
          Pack(arguments_.inputs[0] + (image * source.outer + channel * source.channel) * kBytes, source, count, slot);
          Gather(slot, bias == nullptr ? FloatLanes{}
                                       : LoadLanes<float>(reinterpret_cast<const std::byte*>(bias), channel, count));
          Write(slot, count, arguments_.outputs[0] + (image * channels + channel) * depthwise_.results() * kBytes);
        });
  }

  // The sums of each tap over some images, of one channel after the other.
  void SumImages(const Range& channels, const Range& images, const Slot& slot, double* totals) const {
    const auto& taps = depthwise_.phases[0].taps;
    const auto count = static_cast<int64_t>(taps.size());
    float* const lanes = slot.numbers;
    std::fill_n(lanes, count * kFloatLanes, 0.0F);
    std::fill_n(totals, count * kFloatLanes, 0.0);
    int64_t runs = 0;
    const auto flush = [&] {
      for (int64_t i = 0; i < kFloatLanes; ++i) {
        for (int64_t k = 0; k < count; ++k) totals[i * count + k] += double{lanes[k * kFloatLanes + i]};
      }
      std::fill_n(lanes, count * kFloatLanes, 0.0F);
      runs = 0;
    };
    const ConvolvedStrides& small = convolution_.small;
    const ConvolvedStrides& big = convolution_.big;
    for (int64_t image = images.begin; image < images.end; ++image) {
      if (runs++ == kMostFloatAdditions) flush();
      Pack(arguments_.inputs[1] + (image * big.outer + channels.begin * big.channel) * kBytes, big, channels.size(),
           slot);
      Transpose(arguments_.inputs[0] + (image * small.outer + channels.begin * small.channel) * kBytes, small,
                {depthwise_.axes[0].results, depthwise_.axes[1].results, depthwise_.axes[2].results}, channels.size(),
                slot.results);
      ForPieces<kSummedTaps>(count, [&](int64_t first, int64_t some) {
        WithIndices<kSummedTaps>(some, [&](auto indices) { Sum(indices, slot, taps.data() + first, first); });
      });
    }
    flush();
  }

 private:
  static constexpr int64_t kBytes = sizeof(T);

  using Sizes = std::array<int64_t, kConvolvedAxes>;

  void ReadWeights(int64_t channel, int64_t count, float* to) const {
    for (const DepthwisePhase& phase : depthwise_.phases) {
      for (const DepthwiseTap& tap : phase.taps) {
        for (int64_t i = 0; i < kFloatLanes; ++i) {
          const int64_t offset = (channel + i) * convolution_.weight.outer + tap.weight;
          *to++ = i < count ? WidenElement<T>(arguments_.inputs[1], offset) : 0;
        }
      }
    }
  }

  // Vectors of all positions of a plane, in order.
  static void Transpose(const std::byte* from, const ConvolvedStrides& strides, const Sizes& sizes, int64_t channels,
                        float* to) {
    const bool are_rows = strides.axes[1] == sizes[2] * strides.axes[2] || sizes[1] == 1;
    // The strides of axes of one position say nothing.
    const bool are_planes = are_rows && (strides.axes[0] == sizes[1] * sizes[2] * strides.axes[2] || sizes[0] == 1);
    const int64_t length = are_planes ? sizes[0] * sizes[1] * sizes[2] : are_rows ? sizes[1] * sizes[2] : sizes[2];
    for (int64_t z = 0; z < (are_planes ? 1 : sizes[0]); ++z) {
      for (int64_t y = 0; y < (are_rows ? 1 : sizes[1]); ++y) {
        const MatrixLines<T> lines(from + (z * strides.axes[0] + y * strides.axes[1]) * kBytes, strides.channel,
                                   strides.axes[2]);
        lines.Pack(0, channels, 0, length, kFloatLanes, to);
        to += length * kFloatLanes;
      }
    }
  }

  // Vectors of what results read, with zeros around.
  void Pack(const std::byte* from, const ConvolvedStrides& strides, int64_t channels, const Slot& slot) const {
    const auto& axes = depthwise_.axes;
    Transpose(from, strides, {axes[0].source, axes[1].source, axes[2].source}, channels, slot.results);
    float* region = slot.packed;
    for (const int64_t z_residue : axes[0].residues) {
      for (const int64_t y_residue : axes[1].residues) {
        for (const int64_t x_residue : axes[2].residues) {
          float* to = region;
          for (int64_t z = 0; z < axes[0].packed(); ++z) {
            for (int64_t y = 0; y < axes[1].packed(); ++y) {
              const int64_t z_place = PlaceOf(axes[0], z, z_residue);
              const int64_t y_place = PlaceOf(axes[1], y, y_residue);
              const bool is_inside = Contains(axes[0], z_place) && Contains(axes[1], y_place);
              const float* const row =
                  slot.results + (z_place * axes[1].source + y_place) * axes[2].source * kFloatLanes;
              for (int64_t x = 0; x < axes[2].packed(); ++x) {
                const int64_t place = PlaceOf(axes[2], x, x_residue);
                const bool is_read = is_inside && Contains(axes[2], place);
                StoreFloats(is_read ? LoadFloats(row + place * kFloatLanes) : FloatLanes{}, to);
                to += kFloatLanes;
              }
            }
          }
          region += depthwise_.residue_floats * kFloatLanes;
        }
      }
    }
  }

  [[nodiscard]] static int64_t PlaceOf(const DepthwiseAxis& axis, int64_t packed, int64_t residue) {
    return packed * axis.source_step + residue + axis.source_first;
  }
  [[nodiscard]] static bool Contains(const DepthwiseAxis& axis, int64_t place) {
    return 0 <= place && place < axis.source;
  }

  // Vectors of all results, in order, each the sum of the bias and of all taps.
  void Gather(const Slot& slot, FloatLanes bias) const {
    const auto& axes = depthwise_.axes;
    const float* numbers = slot.numbers;
    for (const DepthwisePhase& phase : depthwise_.phases) {
      const auto count = [&](size_t axis) {
        return (axes[axis].results - phase.first[axis] + axes[axis].step - 1) / axes[axis].step;
      };
      for (int64_t z = 0; z < count(0); ++z) {
        for (int64_t y = 0; y < count(1); ++y) {
          const float* const source =
              slot.packed + (z * depthwise_.plane_floats + y * depthwise_.row_floats()) * kFloatLanes;
          const int64_t row = (z * axes[0].step + phase.first[0]) * axes[1].results + y * axes[1].step + phase.first[1];
          float* const to = slot.results + (row * axes[2].results + phase.first[2]) * kFloatLanes;
          ForPieces<kResultVectors>(count(2), [&](int64_t x, int64_t some) {
            WithIndices<kResultVectors>(some, [&](auto indices) {
              Gather(indices, source + x * kFloatLanes, numbers, phase.taps, axes[2].step * kFloatLanes, bias,
                     to + x * axes[2].step * kFloatLanes);
            });
          });
        }
      }
      numbers += static_cast<int64_t>(phase.taps.size()) * kFloatLanes;
    }
  }

  template <size_t... kVector>
  static void Gather(std::index_sequence<kVector...> /*vectors*/, const float* source, const float* weights,
                     const std::vector<DepthwiseTap>& taps, int64_t apart, FloatLanes bias, float* to) {
    std::array<FloatLanes, sizeof...(kVector)> sums;
    sums.fill(bias);
    for (const DepthwiseTap& tap : taps) {
      const FloatLanes weight = LoadFloats(weights);
      const float* const from = source + tap.offset * kFloatLanes;
      ((sums[kVector] = MultiplyAdd(weight, LoadFloats(from + kVector * kFloatLanes), sums[kVector])), ...);
      weights += kFloatLanes;
    }
    (StoreFloats(sums[kVector], to + static_cast<int64_t>(kVector) * apart), ...);
  }

  // A plane of each channel.
  void Write(const Slot& slot, int64_t channels, std::byte* to) const {
    const int64_t results = depthwise_.results();
    const int64_t pitch = (results + kMostLanes - 1) / kMostLanes * kMostLanes;
    for (int64_t first = 0; first < results; first += 4) {
      for (int64_t lane = 0; lane < channels; lane += 4) TransposeFour(slot.results, first, lane, pitch, slot.more);
    }
    for (int64_t i = 0; i < channels; ++i) {
      RoundRow<T>(slot.more + i * pitch, to + i * results * kBytes, results);
    }
  }

  // Four lanes of four vectors.
  static void TransposeFour(const float* from, int64_t first, int64_t lane, int64_t pitch, float* to) {
    typedef float Four __attribute__((vector_size(16)));
    std::array<Four, 4> rows;
    for (size_t i = 0; i < 4; ++i) {
      std::memcpy(&rows[i], from + (first + static_cast<int64_t>(i)) * kFloatLanes + lane, sizeof(Four));
    }
    const Four low = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
    const Four high = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
    const Four other_low = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
    const Four other_high = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
    const std::array<Four, 4> columns{
        __builtin_shufflevector(low, other_low, 0, 1, 4, 5), __builtin_shufflevector(low, other_low, 2, 3, 6, 7),
        __builtin_shufflevector(high, other_high, 0, 1, 4, 5), __builtin_shufflevector(high, other_high, 2, 3, 6, 7)};
    for (size_t i = 0; i < 4; ++i) {
      std::memcpy(to + (lane + static_cast<int64_t>(i)) * pitch + first, &columns[i], sizeof(Four));
    }
  }

  // Adds to the lanes of each tap the products of an image.
  template <size_t... kTap>
  void Sum(std::index_sequence<kTap...> /*taps*/, const Slot& slot, const DepthwiseTap* taps, int64_t first) const {
    const auto& axes = depthwise_.axes;
    std::array<FloatLanes, sizeof...(kTap)> sums{};
    const std::array<int64_t, sizeof...(kTap)> offsets{taps[kTap].offset * kFloatLanes...};
    const float* small = slot.results;
    for (int64_t z = 0; z < axes[0].results; ++z) {
      for (int64_t y = 0; y < axes[1].results; ++y) {
        const float* source = slot.packed + (z * depthwise_.plane_floats + y * depthwise_.row_floats()) * kFloatLanes;
        for (int64_t x = 0; x < axes[2].results; ++x) {
          const FloatLanes factor = LoadFloats(small);
          ((sums[kTap] = MultiplyAdd(factor, LoadFloats(source + offsets[kTap]), sums[kTap])), ...);
          small += kFloatLanes;
          source += kFloatLanes;
        }
      }
    }
    const auto add = [&](auto tap) {
      float* const place = slot.numbers + (first + static_cast<int64_t>(tap)) * kFloatLanes;
      StoreFloats(LoadFloats(place) + sums[tap], place);
    };
    (add(std::integral_constant<size_t, kTap>{}), ...);
  }

  const Convolution& convolution_;
  const Depthwise& depthwise_;
  const KernelArguments& arguments_;
};

}  // namespace
}  // namespace acl_host
