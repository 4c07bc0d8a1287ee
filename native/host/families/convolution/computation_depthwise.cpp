#include <algorithm>

#include "families/convolution/bias.h"
#include "families/convolution/depthwise.h"
#include "families/convolution/depthwise_boxes.h"
#include "families/convolution/depthwise_slots.h"
#include "families/convolution/depthwise_sums.h"
#include "families/convolution/side_by_side.h"
#include "plan/scratch.h"
#include "tensors/axes.h"
#include "tensors/rows.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

template <typename T>
class DepthwiseSums {
 public:
  DepthwiseSums(const Convolution& convolution, const Depthwise& depthwise, const KernelArguments& arguments)
      : convolution_(convolution), depthwise_(depthwise), arguments_(arguments), packing_(depthwise) {}

  // The sums of one of both tensors: a plane of results for each image and channel, whose bias may be null.
  void GatherAll(const ConvolvedStrides& source, int64_t channels, int64_t multiplier, const float* bias) const {
    const int64_t boxes = depthwise_.boxes();
    const int64_t plane = depthwise_.results();
    const int64_t work = std::min(plane, kLongPlane) / boxes * depthwise_.taps * depthwise_.sources;
    ForSlots(depthwise_, arguments_.pool, arguments_.scratch[0], convolution_.images * channels * boxes, work,
             [&](int64_t index, const Slot& slot) {
               const Box box = BoxAt(depthwise_, index % boxes);
               const int64_t image = index / boxes / channels;
               const int64_t channel = index / boxes % channels;
               for (int64_t i = 0; i < depthwise_.sources; ++i) {
                 const int64_t from = multiplier == 1 ? channel * depthwise_.sources + i : channel / multiplier;
                 packing_.Pack(arguments_.inputs[0] + (image * source.outer + from * source.channel) * kBytes, source,
                               box, slot.more, slot.packed + i * depthwise_.source_floats);
               }
               const std::byte* const weight =
                   arguments_.inputs[1] + channel * depthwise_.sources * convolution_.weight.outer * kBytes;
               Gather(box, weight, bias == nullptr ? 0 : bias[channel], slot,
                      arguments_.outputs[0] + index / boxes * plane * kBytes);
             });
  }

  // The sums of the weight, in parts that are added in order.
  void SumAll() const {
    const int64_t channels = convolution_.groups * convolution_.small_channels;
    const int64_t taps = depthwise_.taps;
    const int64_t parts = depthwise_.parts;
    const int64_t units = convolution_.images * depthwise_.boxes();
    const bool has_sums = parts > 1;
    auto* const sums = AlignedTo<double>(arguments_.scratch[0]);
    std::byte* const memory = reinterpret_cast<std::byte*>(sums + (has_sums ? parts * channels * taps : 0));
    const int64_t lanes = depthwise_.is_side_by_side ? kFloatLanes : 1;
    const int64_t work = std::min(units, kLongPlane) / parts * depthwise_.plane_floats * taps * lanes;
    const int64_t made = (channels + lanes - 1) / lanes;
    ForSlots(depthwise_, arguments_.pool, memory, parts * made, work, [&](int64_t index, const Slot& slot) {
      const Range some{index / parts * lanes, std::min(channels, (index / parts + 1) * lanes)};
      const int64_t part = index % parts;
      const Range own{part * units / parts, (part + 1) * units / parts};
      auto* const totals = reinterpret_cast<double*>(slot.numbers + taps * kFloatLanes);
      if (depthwise_.is_side_by_side) {
        SideBySide<T>(convolution_, depthwise_, arguments_).SumImages(some, own, slot, totals);
      } else {
        SumUnits(some.begin, own, slot, totals);
      }
      for (int64_t channel = some.begin; channel < some.end; ++channel) {
        const double* const own_totals = totals + (channel - some.begin) * taps;
        if (has_sums) {
          std::copy_n(own_totals, taps, sums + (channel * parts + part) * taps);
        } else {
          Finish(channel, own_totals);
        }
      }
    });
    if (!has_sums) return;
    arguments_.pool.ParallelFor(channels, Grain(parts * taps), [&](int64_t begin, int64_t end) {
      for (int64_t channel = begin; channel < end; ++channel) Finish(channel, sums + channel * parts * taps);
    });
  }

 private:
  static constexpr int64_t kBytes = sizeof(T);
  static constexpr int64_t kLongPlane = 1 << 20;

  // Along some rows of results, the elements from the first to the last one.
  [[nodiscard]] int64_t LengthOf(const Box& box) const {
    return (box.count[1] - 1) * depthwise_.row_floats() + box.count[2];
  }

  // The results of a box.
  void Gather(const Box& box, const std::byte* weight, float bias, const Slot& slot, std::byte* to) const {
    const auto& axes = depthwise_.axes;
    const auto x_phases = std::min(axes[2].step, axes[2].results);
    const int64_t result_floats = depthwise_.result_floats / x_phases;
    const int64_t length = LengthOf(box);
    for (size_t first = 0; first < depthwise_.phases.size(); first += static_cast<size_t>(x_phases)) {
      const DepthwisePhase& phase = depthwise_.phases[first];
      float* numbers = slot.numbers;
      for (int64_t x = 0; x < x_phases; ++x) {
        for (const DepthwiseTap& tap : depthwise_.phases[first + static_cast<size_t>(x)].taps) {
          *numbers++ = WidenElement<T>(weight, tap.weight);
        }
      }
      for (int64_t z = 0; z < box.count[0]; ++z) {
        const int64_t z_place = (box.first[0] + z) * axes[0].step + phase.first[0];
        if (z_place >= axes[0].results) break;
        numbers = slot.numbers;
        for (int64_t x = 0; x < x_phases; ++x) {
          const std::vector<DepthwiseTap>& taps = depthwise_.phases[first + static_cast<size_t>(x)].taps;
          SumTaps(slot.packed + z * depthwise_.plane_floats, numbers, taps, length, bias,
                  slot.results + x * result_floats);
          numbers += taps.size();
        }
        for (int64_t y = 0; y < box.count[1]; ++y) {
          const int64_t y_place = (box.first[1] + y) * axes[1].step + phase.first[1];
          if (y_place >= axes[1].results) break;
          const int64_t x_place = box.first[2] * axes[2].step;
          const int64_t count = std::min(box.count[2] * axes[2].step, axes[2].results - x_place);
          const float* row = slot.results + y * depthwise_.row_floats();
          if (x_phases > 1) {
            Join(row, result_floats, x_phases, box.count[2], slot.more);
            row = slot.more;
          }
          RoundRow<T>(row, to + ((z_place * axes[1].results + y_place) * axes[2].results + x_place) * kBytes, count);
        }
      }
    }
  }

  // The sums of some boxes of images, one after the other.
  void SumUnits(int64_t channel, const Range& units, const Slot& slot, double* totals) const {
    const std::vector<DepthwiseTap>& taps = depthwise_.phases[0].taps;
    const auto count = static_cast<int64_t>(taps.size());
    float* const lanes = slot.numbers;
    std::fill_n(lanes, count * kFloatLanes, 0.0F);
    std::fill_n(totals, count, 0.0);
    int64_t runs = 0;
    const auto flush = [&] {
      for (int64_t k = 0; k < count; ++k) {
        for (int64_t i = 0; i < kFloatLanes; ++i) totals[k] += double{lanes[k * kFloatLanes + i]};
      }
      std::fill_n(lanes, count * kFloatLanes, 0.0F);
      runs = 0;
    };
    for (int64_t unit = units.begin; unit < units.end; ++unit) {
      const int64_t image = unit / depthwise_.boxes();
      const Box box = BoxAt(depthwise_, unit % depthwise_.boxes());
      const ConvolvedStrides& big = convolution_.big;
      packing_.Pack(
          arguments_.inputs[1] + (image * big.outer + channel / convolution_.small_channels * big.channel) * kBytes,
          big, box, slot.more, slot.packed);
      const int64_t vectors = (LengthOf(box) + kFloatLanes - 1) / kFloatLanes;
      for (int64_t z = 0; z < box.count[0]; ++z) {
        PackSmall(image, channel, box, z, slot.results);
        const float* const source = slot.packed + z * depthwise_.plane_floats;
        for (int64_t first = 0; first < vectors; first += kMostFloatAdditions) {
          if (runs == kMostFloatAdditions) flush();
          ++runs;
          MultiplySums(slot.results + first * kFloatLanes, source + first * kFloatLanes, taps,
                       std::min(kMostFloatAdditions, vectors - first), lanes);
        }
      }
    }
    flush();
  }

  // The small tensor's rows of a box, at the places of results, with zeros between them.
  void PackSmall(int64_t image, int64_t channel, const Box& box, int64_t z, float* to) const {
    const ConvolvedStrides& small = convolution_.small;
    const int64_t pitch = depthwise_.row_floats();
    for (int64_t y = 0; y < box.count[1]; ++y) {
      const int64_t first = image * small.outer + channel * small.channel + (box.first[0] + z) * small.axes[0] +
                            (box.first[1] + y) * small.axes[1] + box.first[2] * small.axes[2];
      PackElements<T>(arguments_.inputs[0] + first * kBytes, small.axes[2], box.count[2], to + y * pitch);
      PackZeros(pitch - box.count[2], to + y * pitch + box.count[2]);
    }
    PackZeros(kFloatLanes, to + box.count[1] * pitch);
  }

  // Adds up the parts.
  void Finish(int64_t channel, const double* totals) const {
    for (int64_t k = 0; k < depthwise_.taps; ++k) {
      double total = 0;
      for (int64_t part = 0; part < depthwise_.parts; ++part) total += totals[part * depthwise_.taps + k];
      RoundElement<T>(arguments_.outputs[0], channel * depthwise_.taps + k, static_cast<float>(total));
    }
  }

  const Convolution& convolution_;
  const Depthwise& depthwise_;
  const KernelArguments& arguments_;
  const BoxPacking<T> packing_;
};

// Of one of both tensors, from the other one.
void Gather(const Convolution& convolution, const Depthwise& depthwise, const KernelArguments& arguments,
            const ConvolvedStrides& source, bool is_small) {
  VisitFloatType(convolution.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const int64_t multiplier = is_small ? convolution.small_channels : 1;
    const int64_t channels = convolution.groups * multiplier;
    const float* const bias = WidenedBias<T>(arguments, channels);
    if (depthwise.is_side_by_side) return SideBySide<T>(convolution, depthwise, arguments).GatherAll(source, bias);
    DepthwiseSums<T>(convolution, depthwise, arguments).GatherAll(source, channels, multiplier, bias);
  });
}

}  // namespace

template <>
void DepthwiseSumsOfBig<VECTOR_LEVEL>::Run(const Convolution& convolution, const Depthwise& depthwise,
                                           const KernelArguments& arguments) {
  Gather(convolution, depthwise, arguments, convolution.small, false);
}

template <>
void DepthwiseSumsOfSmall<VECTOR_LEVEL>::Run(const Convolution& convolution, const Depthwise& depthwise,
                                             const KernelArguments& arguments) {
  Gather(convolution, depthwise, arguments, convolution.big, true);
}

template <>
void DepthwiseSumsOfWeight<VECTOR_LEVEL>::Run(const Convolution& convolution, const Depthwise& depthwise,
                                              const KernelArguments& arguments) {
  VisitFloatType(convolution.type, [&](auto tag) {
    DepthwiseSums<typename decltype(tag)::Type>(convolution, depthwise, arguments).SumAll();
  });
}

}  // namespace acl_host
