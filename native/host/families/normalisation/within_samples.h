// Groups of the channels of a sample are normalised. In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "families/normalisation/elements.h"
#include "plan/scratch.h"

namespace acl_host {
namespace {

template <typename T>
class WithinSamples {
 public:
  WithinSamples(const Normalisation& norm, const NormalisationLayout& layout, const KernelArguments& arguments)
      : norm_(norm),
        layout_(layout),
        arguments_(arguments),
        elements_(norm, layout, arguments),
        share_(1 / static_cast<double>(layout.block_channels * norm.cells)),
        weights_(arguments, norm.weight, norm.cells == 1 ? layout.tile_slots : 0),
        repeated_(layout.is_short && norm.cells > 1 ? layout.tile_slots : 0),
        own_totals_(layout.shares_tasks ? 0 : layout.step_samples * layout.tiles * 2),
        totals_(layout.shares_tasks ? arguments.scratch.back() : own_totals_.bytes()),
        own_slots_(layout.shares_tasks ? layout.tile_slots : layout.block_slots),
        own_sums_(norm.has_parameters() && layout.sums_bytes == 0 ? 2 * own_slots_ : 0),
        sums_{layout.sums_bytes > 0 ? arguments.scratch.front() : nullptr, 0, layout.slots} {}

  void Prepare(int64_t) {}

  // What the gradients of the input need of all tiles of a group.
  void Sum(const Tile& tile) {
    if (layout_.is_short) return SumShort(tile);
    for (int64_t sample = tile.first_sample; sample < tile.end_sample; ++sample) {
      const Statistics of = StatisticsOf(sample, tile.block);
      const bool is_first = sample % layout_.chunk_samples == 0;
      Sums<double> total{};
      elements_.ForSlots(tile, [&](const Slot& slot) {
        const double weight = ValueOf(arguments_, norm_.weight, slot.channel, 1);
        const Sums<float> sums = SumOf(elements_.RunAt(sample, slot.first, of.mean, of.rstd), slot.count, 1.0F);
        total.grad += weight * double{sums.grad};
        total.product += weight * double{sums.product};
        if (!norm_.has_parameters()) return;
        const auto add = [&](std::byte* to, float sum) { StoreElement(to, 0, is_first ? sum : FloatAt(to, 0) + sum); };
        add(sums_.Grads(tile.chunk, slot.index), sums.grad);
        add(sums_.Products(tile.chunk, slot.index), sums.product);
      });
      StoreElement(TotalsOf(sample, tile.block), tile.number, total);
    }
  }

  // Adds a tile that was made, and is in the cache, to the sums of its slots. Those of a single chunk are complete.
  void AddUp(const Tile& tile) const {
    if (!layout_.is_short || !norm_.has_parameters()) return;
    const auto run_at = [&](int64_t sample) { return RunAt(sample, tile); };
    if (layout_.sums_bytes > 0) return AddSamples(layout_, tile, sums_, run_at);
    const int64_t first = layout_.shares_tasks ? tile.first_slot : tile.block * layout_.block_slots;
    const Table sums{own_sums_.bytes(), first, own_slots_};
    AddSamples(layout_, tile, sums, run_at);
    if (tile.end_sample < norm_.samples) return;
    WriteParameters(norm_, layout_, arguments_, sums, tile.first_slot / norm_.cells, tile.end_slot / norm_.cells);
  }

  // Replaces the sums of the first tile of each sample by those of all.
  void Finish(int64_t block, int64_t first_sample, int64_t end_sample) const {
    if (layout_.tiles == 1) return;
    for (int64_t sample = first_sample; sample < end_sample; ++sample) {
      std::byte* const totals = TotalsOf(sample, block);
      auto all = LoadElement<Sums<double>>(totals, 0);
      for (int64_t tile = 1; tile < layout_.tiles; ++tile) {
        const auto total = LoadElement<Sums<double>>(totals, tile);
        all.grad += total.grad;
        all.product += total.product;
      }
      StoreElement(totals, 0, all);
    }
  }

  // Writes elements of type To.
  template <typename To>
  void Make(const Tile& tile) {
    if (layout_.is_short) return MakeShort<To>(tile);
    for (int64_t sample = tile.first_sample; sample < tile.end_sample; ++sample) {
      const Statistics of = StatisticsOf(sample, tile.block);
      const Sums<float> means = MeansOf(LoadElement<Sums<double>>(TotalsOf(sample, tile.block), 0));
      elements_.ForSlots(tile, [&](const Slot& slot) {
        const float scale = ValueOf(arguments_, norm_.weight, slot.channel, 1) * of.rstd;
        MakeRun<To>(elements_.RunAt(sample, slot.first, of.mean, of.rstd), slot.count, scale, -of.rstd * means.product,
                    -of.rstd * means.grad, elements_.template GradientAt<To>(sample, slot.first));
      });
    }
  }

 private:
  struct Statistics {
    float mean;
    float rstd;
  };

  void SumShort(const Tile& tile) {
    if (layout_.tiles == 1 || !norm_.grad_input) return;
    const Each weights = WeightsOf(tile);
    for (int64_t sample = tile.first_sample; sample < tile.end_sample; ++sample) {
      const Sums<float> sums = SumOf(RunAt(sample, tile), tile.slots(), weights);
      StoreElement(TotalsOf(sample, tile.block), tile.number, Sums<double>{sums.grad, sums.product});
    }
  }

  template <typename To>
  void MakeShort(const Tile& tile) {
    const Each weights = WeightsOf(tile);
    for (int64_t sample = tile.first_sample; sample < tile.end_sample; ++sample) {
      const Run<T, float> run = RunAt(sample, tile);
      Sums<double> sums{};
      if (layout_.tiles == 1) {
        const Sums<float> of_row = SumOf(run, tile.slots(), weights);
        sums = {of_row.grad, of_row.product};
      } else {
        sums = LoadElement<Sums<double>>(TotalsOf(sample, tile.block), 0);
      }
      const Sums<float> means = MeansOf(sums);
      MakeRun<To>(run, tile.slots(), EachTimes{weights, run.rstd}, -run.rstd * means.product, -run.rstd * means.grad,
                  elements_.template GradientAt<To>(sample, tile.first_slot));
    }
  }

  [[nodiscard]] Sums<float> MeansOf(const Sums<double>& sums) const {
    return {norm_.is_centred ? static_cast<float>(sums.grad * share_) : 0, static_cast<float>(sums.product * share_)};
  }

  [[nodiscard]] Statistics StatisticsOf(int64_t sample, int64_t block) const {
    const int64_t group = sample * norm_.groups + block;
    return {ValueOf(arguments_, norm_.mean, group, 0), ValueOf(arguments_, norm_.rstd, group, 1)};
  }
  [[nodiscard]] Run<T, float> RunAt(int64_t sample, const Tile& tile) const {
    const Statistics of = StatisticsOf(sample, tile.block);
    return elements_.RunAt(sample, tile.first_slot, of.mean, of.rstd);
  }

  // The sums of the tiles of a block, of a sample.
  [[nodiscard]] std::byte* TotalsOf(int64_t sample, int64_t block) const {
    const int64_t row =
        layout_.shares_tasks ? sample * layout_.blocks + block : sample % layout_.chunk_samples % layout_.step_samples;
    return totals_ + static_cast<size_t>(row * layout_.tiles) * sizeof(Sums<double>);
  }

  // Those of a tile of short channels, one for each cell.
  [[nodiscard]] Each WeightsOf(const Tile& tile) {
    if (tile.first_slot == first_weight_) return {weight_};
    first_weight_ = tile.first_slot;
    if (norm_.cells == 1) {
      weight_ = weights_.Read(tile.first_slot, tile.slots());
    } else {
      for (int64_t i = 0; i < tile.slots(); ++i) {
        repeated_.data()[i] = ValueOf(arguments_, norm_.weight, (tile.first_slot + i) / norm_.cells, 1);
      }
      weight_ = repeated_.bytes();
    }
    return {weight_};
  }

  const Normalisation& norm_;
  const NormalisationLayout& layout_;
  const KernelArguments& arguments_;
  const Elements<T> elements_;
  const double share_;  // of an element in a mean
  const Floats weights_;
  const Scratch<float> repeated_;
  const Scratch<double> own_totals_;
  std::byte* const totals_;
  const int64_t own_slots_;
  const Scratch<float> own_sums_;
  const Table sums_;
  int64_t first_weight_ = -1;
  const std::byte* weight_ = nullptr;
};

}  // namespace
}  // namespace acl_host
