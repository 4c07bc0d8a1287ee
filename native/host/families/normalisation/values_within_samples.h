// Groups of the channels of a sample are normalised. In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "families/normalisation/elements.h"
#include "families/normalisation/moments.h"
#include "plan/scratch.h"

namespace acl_host {
namespace {

template <typename T>
class ValuesWithinSamples {
 public:
  ValuesWithinSamples(const NormalisationValue& norm, const NormalisationLayout& layout,
                      const KernelArguments& arguments)
      : norm_(norm),
        layout_(layout),
        arguments_(arguments),
        inputs_(arguments.inputs[norm.input.index]),
        weights_(norm, layout, arguments, norm.weight, 1),
        biases_(norm, layout, arguments, norm.bias, 0),
        own_totals_(layout.shares_tasks ? 0 : layout.step_samples * layout.tiles * 2),
        totals_(layout.shares_tasks ? arguments.scratch.back() : own_totals_.bytes()) {}

  void Prepare(int64_t) {}

  void Sum(const Tile& tile) const {
    const int64_t first = layout_.ElementOf(norm_, tile.first_slot);
    const int64_t count = layout_.ElementOf(norm_, tile.end_slot) - first;
    for (int64_t sample = tile.first_sample; sample < tile.end_sample; ++sample) {
      const std::byte* const from = At<T>(inputs_, sample, first);
      const auto run = [from](int64_t) { return from; };
      StoreElement(TotalsOf(sample, tile.block), tile.number, MomentsOf<T>(run, 1, count, norm_.is_centred));
    }
  }

  // Replaces the moments of the first tile of each sample by what its elements are normalised with.
  void Finish(int64_t block, int64_t first_sample, int64_t end_sample) const {
    const int64_t first_slot = block * layout_.block_slots;
    const int64_t end_slot = first_slot + layout_.block_slots;
    const auto count = [&](int64_t tile) {
      const int64_t first = first_slot + tile * layout_.tile_slots;
      const int64_t end = std::min(end_slot, first + layout_.tile_slots);
      return static_cast<double>(layout_.ElementOf(norm_, end) - layout_.ElementOf(norm_, first));
    };
    for (int64_t sample = first_sample; sample < end_sample; ++sample) {
      std::byte* const totals = TotalsOf(sample, block);
      MomentsOfParts all;
      for (int64_t i = 0; i < layout_.tiles; ++i) all.AddMean(LoadElement<Moments>(totals, i), count(i));
      for (int64_t i = 0; i < layout_.tiles; ++i) all.AddSquares(LoadElement<Moments>(totals, i), count(i));
      const double rstd = ReciprocalDeviation(all.variance(), norm_.eps);
      WriteValue(arguments_, norm_.mean, sample * norm_.groups + block, all.mean());
      WriteValue(arguments_, norm_.rstd, sample * norm_.groups + block, rstd);
      StoreElement(totals, 0, Statistics{static_cast<float>(all.mean()), static_cast<float>(rstd)});
    }
  }

  void Make(const Tile& tile) {
    VisitFloatType(norm_.out.type, [&](auto tag) {
      using To = typename decltype(tag)::Type;
      if (layout_.is_short) return MakeShort<To>(tile);
      for (int64_t sample = tile.first_sample; sample < tile.end_sample; ++sample) {
        const auto [mean, rstd] = StatisticsOf(sample, tile.block);
        ForSlots(norm_, layout_, tile, [&, mean = mean, rstd = rstd](const Slot& slot) {
          const float scale = ValueOf(arguments_, norm_.weight, slot.channel, 1) * rstd;
          NormaliseRun<T, To>(At<T>(inputs_, sample, slot.first), slot.count, mean, scale,
                              ValueOf(arguments_, norm_.bias, slot.channel, 0), OutAt<To>(sample, slot.first));
        });
      }
    });
  }

 private:
  struct Statistics {
    float mean;
    float rstd;
  };

  template <typename To>
  void MakeShort(const Tile& tile) {
    const Each weights = weights_.Of(tile);
    const Each biases = biases_.Of(tile);
    const int64_t count = tile.slots();
    const auto make = [&](auto weight, auto bias) {
      for (int64_t sample = tile.first_sample; sample < tile.end_sample; ++sample) {
        const auto [mean, rstd] = StatisticsOf(sample, tile.block);
        NormaliseRun<T, To>(At<T>(inputs_, sample, tile.first_slot), count, mean, weight * rstd, bias,
                            OutAt<To>(sample, tile.first_slot));
      }
    };
    if (count > kFloatLanes) return make(weights, biases);
    make(LoadLanes<float>(weights.numbers, 0, count), LoadLanes<float>(biases.numbers, 0, count));
  }

  template <typename Element, typename Byte>
  [[nodiscard]] Byte* At(Byte* elements, int64_t sample, int64_t first) const {
    return elements + (sample * norm_.channels * norm_.cells + first) * int64_t{sizeof(Element)};
  }

  template <typename To>
  [[nodiscard]] std::byte* OutAt(int64_t sample, int64_t first) const {
    return At<To>(arguments_.outputs[norm_.out.index], sample, first);
  }

  [[nodiscard]] Statistics StatisticsOf(int64_t sample, int64_t block) const {
    return LoadElement<Statistics>(TotalsOf(sample, block), 0);
  }

  // Of the tiles of a block, of a sample.
  [[nodiscard]] std::byte* TotalsOf(int64_t sample, int64_t block) const {
    const int64_t row =
        layout_.shares_tasks ? sample * layout_.blocks + block : sample % layout_.chunk_samples % layout_.step_samples;
    return totals_ + static_cast<size_t>(row * layout_.tiles) * sizeof(Moments);
  }

  const NormalisationValue& norm_;
  const NormalisationLayout& layout_;
  const KernelArguments& arguments_;
  const std::byte* const inputs_;
  CellNumbers weights_;
  CellNumbers biases_;
  const Scratch<double> own_totals_;
  std::byte* const totals_;
};

}  // namespace
}  // namespace acl_host
