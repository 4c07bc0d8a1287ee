// The channels of all samples are normalised. In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "families/normalisation/elements.h"
#include "families/normalisation/moments.h"
#include "plan/scratch.h"

namespace acl_host {
namespace {

template <typename T>
class ValuesOverSamples {
 public:
  ValuesOverSamples(const NormalisationValue& norm, const NormalisationLayout& layout, const KernelArguments& arguments)
      : norm_(norm),
        layout_(layout),
        arguments_(arguments),
        inputs_(arguments.inputs[norm.input.index]),
        own_moments_(layout.shares_tasks || !norm.has_sums() ? 0 : layout.chunks * layout.block_slots * 2),
        own_numbers_(layout.shares_tasks ? 0 : layout.block_numbers),
        repeats_(layout.is_short ? norm.cells : 1),
        moments_{layout.sums_bytes > 0 ? arguments.scratch.front() : own_moments_.bytes(), 0,
                 layout.shares_tasks ? layout.slots : layout.block_slots},
        numbers_{layout.shares_tasks ? arguments.scratch.back() : own_numbers_.bytes(), 0,
                 (layout.shares_tasks ? norm.channels : layout.block_channels) * repeats_} {}

  void Prepare(int64_t block) {
    if (layout_.shares_tasks) return;
    moments_.first = block * layout_.block_slots;
    numbers_.first = FirstOf(block) * repeats_;
  }

  void Sum(const Tile& tile) const {
    if (!norm_.has_sums()) return;
    if (layout_.is_short) return SumShort(tile);
    ForSlots(norm_, layout_, tile, [&](const Slot& slot) {
      const auto run = [&](int64_t i) { return At<T>(inputs_, tile.first_sample + i, slot.first); };
      const Moments found = MomentsOf<T>(run, SamplesOf(tile), slot.count, /*is_centred=*/true);
      StoreElement(MeanOf(tile.chunk, slot.index), 0, static_cast<float>(found.mean));
      StoreElement(SquaresOf(tile.chunk, slot.index), 0, static_cast<float>(found.squares));
    });
  }

  void Finish(int64_t block, int64_t, int64_t) const {
    for (int64_t channel = FirstOf(block); channel < EndOf(block); ++channel) {
      double mean = ValueOf(arguments_, norm_.running_mean, channel, 0);
      double variance = ValueOf(arguments_, norm_.running_var, channel, 1);
      if (norm_.has_sums()) {
        const MomentsOfParts own = MomentsOfChannel(channel);
        Update(channel, mean, variance, own);
        mean = own.mean();
        variance = own.variance();
      }
      const double rstd = ReciprocalDeviation(variance, norm_.eps);
      WriteValue(arguments_, norm_.mean, channel, mean);
      WriteValue(arguments_, norm_.rstd, channel, norm_.saves_variance ? variance : rstd);
      Keep(kMean, channel, mean);
      Keep(kScale, channel, rstd * double{ValueOf(arguments_, norm_.weight, channel, 1)});
      Keep(kShift, channel, ValueOf(arguments_, norm_.bias, channel, 0));
    }
  }

  void Make(const Tile& tile) const {
    VisitFloatType(norm_.out.type, [&](auto tag) {
      using To = typename decltype(tag)::Type;
      if (layout_.is_short) {
        const auto make = [&](const auto& of) { MakeSamples<To>(tile, tile.first_slot, tile.slots(), of); };
        if (tile.slots() > kFloatLanes) return make([&](Number number) { return EachOf(number, tile); });
        return make([&](Number number) { return LoadLanes<float>(EachOf(number, tile).numbers, 0, tile.slots()); });
      }
      ForSlots(norm_, layout_, tile, [&](const Slot& slot) {
        MakeSamples<To>(tile, slot.first, slot.count, [&](Number number) { return NumberOf(number, slot.channel); });
      });
    });
  }

 private:
  // What is known of each channel; once for each cell if channels are short.
  enum Number { kMean, kScale, kShift };

  // Of each cell of some samples.
  void SumShort(const Tile& tile) const {
    const int64_t samples = SamplesOf(tile);
    const float share = 1 / static_cast<float>(samples);
    const std::byte* const from = At<T>(inputs_, tile.first_sample, tile.first_slot);
    const int64_t bytes = norm_.channels * norm_.cells * int64_t{sizeof(T)};
    ForLanes(tile.slots(), [&](int64_t slot, auto lanes) {
      FloatLanes sum{};
      for (int64_t i = 0; i < samples; ++i) sum += LoadLanes<T>(from + i * bytes, slot, lanes);
      const FloatLanes mean = sum * share;
      FloatLanes distances{};
      FloatLanes squares{};
      for (int64_t i = 0; i < samples; ++i) {
        const FloatLanes distance = LoadLanes<T>(from + i * bytes, slot, lanes) - mean;
        distances += distance;
        squares += distance * distance;
      }
      // As MomentsOf.
      const FloatLanes rest = distances * share;
      StoreLanes<float>(rest == rest ? mean + rest : mean, MeanOf(tile.chunk, tile.first_slot), slot, lanes);
      StoreLanes<float>(squares - rest * distances, SquaresOf(tile.chunk, tile.first_slot), slot, lanes);
    });
  }

  [[nodiscard]] MomentsOfParts MomentsOfChannel(int64_t channel) const {
    MomentsOfParts all;
    const auto for_parts = [&](const auto& add) {
      for (int64_t chunk = 0; chunk < layout_.chunks; ++chunk) {
        const int64_t samples = std::min(layout_.chunk_samples, norm_.samples - chunk * layout_.chunk_samples);
        for (int64_t part = 0; part < layout_.slots_of_channel; ++part) {
          const int64_t cells = std::min(layout_.slot_cells, norm_.cells - part * layout_.slot_cells);
          const int64_t slot = channel * layout_.slots_of_channel + part;
          add(Moments{FloatAt(MeanOf(chunk, slot), 0), FloatAt(SquaresOf(chunk, slot), 0)},
              static_cast<double>(samples * cells));
        }
      }
    };
    for_parts([&](const Moments& part, double count) { all.AddMean(part, count); });
    for_parts([&](const Moments& part, double count) { all.AddSquares(part, count); });
    return all;
  }

  // A channel of one element adds nothing to the variance, as on devices.
  void Update(int64_t channel, double mean, double variance, const MomentsOfParts& own) const {
    const double share = norm_.momentum;
    const double unbiased = own.count() > 1 ? own.variance() * own.count() / (own.count() - 1) : 0;
    WriteValue(arguments_, norm_.updated_mean, channel, (1 - share) * mean + share * own.mean());
    WriteValue(arguments_, norm_.updated_var, channel, (1 - share) * variance + share * unbiased);
  }

  template <typename To, typename Of>
  void MakeSamples(const Tile& tile, int64_t first, int64_t count, const Of& of) const {
    const auto mean = of(kMean), scale = of(kScale), shift = of(kShift);
    for (int64_t sample = tile.first_sample; sample < tile.end_sample; ++sample) {
      NormaliseRun<T, To>(At<T>(inputs_, sample, first), count, mean, scale, shift,
                          At<To>(arguments_.outputs[norm_.out.index], sample, first));
    }
  }

  template <typename Element, typename Byte>
  [[nodiscard]] Byte* At(Byte* elements, int64_t sample, int64_t first) const {
    return elements + (sample * norm_.channels * norm_.cells + first) * int64_t{sizeof(Element)};
  }

  [[nodiscard]] static int64_t SamplesOf(const Tile& tile) { return tile.end_sample - tile.first_sample; }
  [[nodiscard]] int64_t FirstOf(int64_t block) const { return block * layout_.block_channels; }
  [[nodiscard]] int64_t EndOf(int64_t block) const {
    return std::min(norm_.channels, FirstOf(block) + layout_.block_channels);
  }

  [[nodiscard]] std::byte* MeanOf(int64_t chunk, int64_t slot) const { return moments_.At(2 * chunk, slot); }
  [[nodiscard]] std::byte* SquaresOf(int64_t chunk, int64_t slot) const { return moments_.At(2 * chunk + 1, slot); }

  [[nodiscard]] float NumberOf(Number number, int64_t channel) const {
    return FloatAt(numbers_.At(number, channel * repeats_), 0);
  }
  [[nodiscard]] Each EachOf(Number number, const Tile& tile) const { return {numbers_.At(number, tile.first_slot)}; }
  void Keep(Number number, int64_t channel, double value) const {
    std::byte* const numbers = numbers_.At(number, channel * repeats_);
    for (int64_t i = 0; i < repeats_; ++i) StoreElement(numbers, i, static_cast<float>(value));
  }

  const NormalisationValue& norm_;
  const NormalisationLayout& layout_;
  const KernelArguments& arguments_;
  const std::byte* const inputs_;
  const Scratch<float> own_moments_;
  const Scratch<float> own_numbers_;
  const int64_t repeats_;
  Table moments_;
  Table numbers_;
};

}  // namespace
}  // namespace acl_host
