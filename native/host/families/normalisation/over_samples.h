// The channels of all samples are normalised. In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "families/normalisation/elements.h"
#include "plan/scratch.h"

namespace acl_host {
namespace {

template <typename T>
class OverSamples {
 public:
  OverSamples(const Normalisation& norm, const NormalisationLayout& layout, const KernelArguments& arguments)
      : norm_(norm),
        layout_(layout),
        arguments_(arguments),
        elements_(norm, arguments),
        own_sums_(layout.shares_tasks ? 0 : layout.chunks * layout.block_slots * 2),
        own_numbers_(layout.shares_tasks ? 0 : layout.block_numbers),
        repeats_(layout.is_short ? norm.cells : 1),
        sums_{layout.sums_bytes > 0 ? arguments.scratch.front() : own_sums_.bytes(), 0,
              layout.shares_tasks ? layout.slots : layout.block_slots},
        numbers_{layout.shares_tasks ? arguments.scratch.back() : own_numbers_.bytes(), 0,
                 (layout.shares_tasks ? norm.channels : layout.block_channels) * repeats_} {}

  void Prepare(int64_t block) {
    if (!layout_.shares_tasks) {
      sums_.first = block * layout_.block_slots;
      numbers_.first = FirstOf(block) * repeats_;
    }
    for (int64_t channel = FirstOf(block); channel < EndOf(block); ++channel) {
      const double rstd = ValueOf(arguments_, norm_.rstd, channel, 1);
      Keep(kMean, channel, ValueOf(arguments_, norm_.mean, channel, 0));
      Keep(kRstd, channel, norm_.has_variance ? 1 / std::sqrt(rstd + double{norm_.eps}) : rstd);
    }
  }

  void Sum(const Tile& tile) const {
    if (!norm_.needs_sums()) return;
    if (layout_.is_short) {
      const auto add = [&](auto mean, auto rstd) {
        AddSamples(layout_, tile, sums_,
                   [&](int64_t sample) { return elements_.RunAt(sample, tile.first_slot, mean, rstd); });
      };
      if (tile.slots() > kFloatLanes) return add(EachOf(kMean, tile), EachOf(kRstd, tile));
      return add(OnlyLanesOf(kMean, tile), OnlyLanesOf(kRstd, tile));
    }
    ForSlots(norm_, layout_, tile, [&](const Slot& slot) {
      const float mean = NumberOf(kMean, slot.channel);
      const float rstd = NumberOf(kRstd, slot.channel);
      SumsOfRuns<2> of_slot;
      for (int64_t sample = tile.first_sample; sample < tile.end_sample; ++sample) {
        AddRun(elements_.RunAt(sample, slot.first, mean, rstd), slot.count, 1.0F, of_slot);
      }
      const auto [grad, product] = of_slot.Total();
      StoreElement(sums_.Grads(tile.chunk, slot.index), 0, grad);
      StoreElement(sums_.Products(tile.chunk, slot.index), 0, product);
    });
  }

  // Makes the gradients of weight and bias, and prepares that of the input.
  void Finish(int64_t block, int64_t, int64_t) const {
    const ChannelSums sums(norm_, layout_, sums_, FirstOf(block), EndOf(block) - FirstOf(block));
    sums.WriteGradients(norm_, arguments_);
    const double count = static_cast<double>(norm_.samples) * static_cast<double>(norm_.cells);
    for (int64_t channel = FirstOf(block); channel < EndOf(block); ++channel) {
      const double scale = double{ValueOf(arguments_, norm_.weight, channel, 1)} * double{NumberOf(kRstd, channel)};
      Keep(kScale, channel, scale);
      Keep(kProduct, channel, -scale * sums.ProductOf(channel) / count);
      Keep(kShift, channel, -scale * sums.GradOf(channel) / count);
    }
  }

  void Make(const Tile& tile) const {
    if (!norm_.grad_input) return;
    VisitFloatType(norm_.grad_input->type, [&](auto tag) { MakeAs<typename decltype(tag)::Type>(tile); });
  }

 private:
  // Writes elements of type To.
  template <typename To>
  void MakeAs(const Tile& tile) const {
    if (layout_.is_short) {
      const auto make = [&](const auto& of) { MakeSamples<To>(tile, tile.first_slot, tile.slots(), of); };
      if (tile.slots() > kFloatLanes) return make([&](Number number) { return EachOf(number, tile); });
      return make([&](Number number) { return OnlyLanesOf(number, tile); });
    }
    ForSlots(norm_, layout_, tile, [&](const Slot& slot) {
      MakeSamples<To>(tile, slot.first, slot.count, [&](Number number) { return NumberOf(number, slot.channel); });
    });
  }

  // What is known of each channel; once for each cell if channels are short.
  enum Number { kMean, kRstd, kScale, kProduct, kShift };

  template <typename To, typename Of>
  void MakeSamples(const Tile& tile, int64_t first, int64_t count, const Of& of) const {
    const auto mean = of(kMean), rstd = of(kRstd), scale = of(kScale), product = of(kProduct), shift = of(kShift);
    for (int64_t sample = tile.first_sample; sample < tile.end_sample; ++sample) {
      const auto run = elements_.RunAt(sample, first, mean, rstd);
      std::byte* const to = elements_.template GradientAt<To>(sample, first);
      norm_.is_constant ? ScaleRun<To>(run, count, scale, to) : MakeRun<To>(run, count, scale, product, shift, to);
    }
  }

  [[nodiscard]] int64_t FirstOf(int64_t block) const { return block * layout_.block_channels; }
  [[nodiscard]] int64_t EndOf(int64_t block) const {
    return std::min(norm_.channels, FirstOf(block) + layout_.block_channels);
  }

  [[nodiscard]] float NumberOf(Number number, int64_t channel) const {
    return FloatAt(numbers_.At(number, channel * repeats_), 0);
  }
  [[nodiscard]] Each EachOf(Number number, const Tile& tile) const { return {numbers_.At(number, tile.first_slot)}; }
  // The same of a tile that fits in one vector.
  [[nodiscard]] FloatLanes OnlyLanesOf(Number number, const Tile& tile) const {
    return LoadLanes<float>(EachOf(number, tile).numbers, 0, tile.slots());
  }
  void Keep(Number number, int64_t channel, double value) const {
    std::byte* const numbers = numbers_.At(number, channel * repeats_);
    for (int64_t i = 0; i < repeats_; ++i) StoreElement(numbers, i, static_cast<float>(value));
  }

  const Normalisation& norm_;
  const NormalisationLayout& layout_;
  const KernelArguments& arguments_;
  const Elements<T> elements_;
  const Scratch<float> own_sums_;
  const Scratch<float> own_numbers_;
  const int64_t repeats_;
  Table sums_;
  Table numbers_;
};

}  // namespace
}  // namespace acl_host
