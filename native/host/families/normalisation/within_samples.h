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
        elements_(norm, arguments),
        terms_of_{1 / static_cast<double>(layout.block_channels * norm.cells), norm.is_centred},
        weights_(norm, layout, arguments, norm.weight, 1),
        own_totals_(layout.shares_tasks ? 0 : layout.step_samples * layout.tiles * 2),
        totals_(layout.shares_tasks ? arguments.scratch.back() : own_totals_.bytes()),
        own_slots_(layout.shares_tasks ? layout.tile_slots : layout.block_slots),
        own_sums_(norm.has_parameters() && layout.sums_bytes == 0 ? 2 * own_slots_ : 0),
        sums_{layout.sums_bytes > 0 ? arguments.scratch.front() : nullptr, 0, layout.slots},
        statistics_(layout.is_short ? 2 * layout.chunk_samples : 0) {}

  void Prepare(int64_t) {}

  // What the gradients of the input need of all tiles of a group.
  void Sum(const Tile& tile) {
    if (layout_.is_short) {
      if (!SumsWhenMade(tile)) SumShort(tile);
      return;
    }
    for (int64_t sample = tile.first_sample; sample < tile.end_sample; ++sample) {
      const Statistics of = StatisticsOf(sample, tile.block);
      const bool is_first = sample % layout_.chunk_samples == 0;
      Sums<double> total{};
      ForSlots(norm_, layout_, tile, [&](const Slot& slot) {
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

  // What is made is in the cache, where it is added to the sums of its slots.
  void Make(const Tile& tile) {
    if (norm_.grad_input) {
      VisitFloatType(norm_.grad_input->type, [&](auto tag) { MakeAs<typename decltype(tag)::Type>(tile); });
    }
    AddUp(tile);
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

 private:
  // Writes elements of type To.
  template <typename To>
  void MakeAs(const Tile& tile) {
    if (layout_.is_short) return SumsWhenMade(tile) ? MakeShort<To, true>(tile) : MakeShort<To, false>(tile);
    for (int64_t sample = tile.first_sample; sample < tile.end_sample; ++sample) {
      const Statistics of = StatisticsOf(sample, tile.block);
      const Sums<float> terms = terms_of_(LoadElement<Sums<double>>(TotalsOf(sample, tile.block), 0), of.rstd);
      ForSlots(norm_, layout_, tile, [&](const Slot& slot) {
        const float scale = ValueOf(arguments_, norm_.weight, slot.channel, 1) * of.rstd;
        MakeRun<To>(elements_.RunAt(sample, slot.first, of.mean, of.rstd), slot.count, scale, terms.product, terms.grad,
                    elements_.template GradientAt<To>(sample, slot.first));
      });
    }
  }

  // Adds a tile to the sums of its slots. Those of a single chunk are complete.
  void AddUp(const Tile& tile) {
    if (!layout_.is_short || !norm_.has_parameters()) return;
    const auto run_at = [rows = RowsOf(tile), first = tile.first_sample](int64_t sample) {
      return rows.At(sample - first);
    };
    if (layout_.sums_bytes > 0) return AddSamples(layout_, tile, sums_, run_at);
    const int64_t first = layout_.shares_tasks ? tile.first_slot : tile.block * layout_.block_slots;
    const Table sums{own_sums_.bytes(), first, own_slots_};
    AddSamples(layout_, tile, sums, run_at);
    if (tile.end_sample < norm_.samples) return;
    WriteParameters(norm_, layout_, arguments_, sums, tile.first_slot / norm_.cells, tile.end_slot / norm_.cells);
  }

  // What the sums of a group add to each gradient: a constant, and that times the normalised input.
  struct Terms {
    [[nodiscard]] Sums<float> operator()(const Sums<double>& sums, float rstd) const {
      const float mean = is_centred ? static_cast<float>(sums.grad * share) : 0;
      return {-rstd * mean, -rstd * static_cast<float>(sums.product * share)};
    }

    double share;  // of an element in a mean
    bool is_centred;
  };

  struct Statistics {
    float mean;
    float rstd;
  };

  // Calls make with the weights of a tile: lanes if it fits in one vector.
  template <typename Make>
  void WithWeights(const Tile& tile, const Make& make) {
    const Each weights = weights_.Of(tile);
    tile.slots() > kFloatLanes ? make(weights) : make(LoadLanes<float>(weights.numbers, 0, tile.slots()));
  }

  // These two loops keep copies of all that they need, because the compiler takes a store of bytes for a change of it.
  void SumShort(const Tile& tile) {
    if (!norm_.grad_input) return;
    const Rows rows = RowsOf(tile);
    std::byte* const totals = TotalsOf(tile.first_sample, tile.block) + tile.number * int64_t{sizeof(Sums<double>)};
    WithWeights(tile, [&, count = tile.slots(), step = TotalsStep()](auto weights) {
      for (int64_t row = 0; row < rows.count; ++row) {
        StoreElement(totals, row * step, Widened(SumOf(rows.At(row), count, weights)));
      }
    });
  }

  template <typename To, bool kSums>
  void MakeShort(const Tile& tile) {
    const Rows rows = RowsOf(tile);
    const std::byte* const totals = TotalsOf(tile.first_sample, tile.block);
    std::byte* const to = elements_.template GradientAt<To>(tile.first_sample, tile.first_slot);
    WithWeights(tile, [&, count = tile.slots(), step = TotalsStep(), bytes = elements_.template SampleBytes<To>(),
                       terms_of = terms_of_](auto weights) {
      for (int64_t row = 0; row < rows.count; ++row) {
        const Run<T, float> run = rows.At(row);
        auto sums = LoadElement<Sums<double>>(totals, row * step);
        if constexpr (kSums) sums = Widened(SumOf(run, count, weights));
        const Sums<float> terms = terms_of(sums, run.rstd);
        MakeRun<To>(run, count, weights * run.rstd, terms.product, terms.grad, to + row * bytes);
      }
    });
  }

  [[nodiscard]] static Sums<double> Widened(const Sums<float>& sums) { return {sums.grad, sums.product}; }

  // A wide row is in the nearest cache then. But each narrow one would wait for its sums.
  [[nodiscard]] bool SumsWhenMade(const Tile& tile) const { return layout_.tiles == 1 && tile.slots() > kMostOfNarrow; }
  static constexpr int64_t kMostOfNarrow = 256;

  [[nodiscard]] Statistics StatisticsOf(int64_t sample, int64_t block) const {
    const int64_t group = sample * norm_.groups + block;
    return {ValueOf(arguments_, norm_.mean, group, 0), ValueOf(arguments_, norm_.rstd, group, 1)};
  }

  // The samples of a tile of short channels.
  struct Rows {
    [[nodiscard]] Run<T, float> At(int64_t row) const {
      return {grads + row * bytes, inputs + row * bytes, means[row], rstds[row]};
    }

    int64_t count;
    const std::byte* grads;
    const std::byte* inputs;
    int64_t bytes;
    const float* means;
    const float* rstds;
  };
  [[nodiscard]] Rows RowsOf(const Tile& tile) {
    const int64_t first = tile.first_sample * norm_.groups + tile.block;
    const int64_t count = tile.end_sample - tile.first_sample;
    float* const means = statistics_.data();
    float* const rstds = means + layout_.chunk_samples;
    if (first != first_row_) {
      first_row_ = first;
      ReadValues(arguments_, norm_.mean, 0, first, norm_.groups, count, means);
      ReadValues(arguments_, norm_.rstd, 1, first, norm_.groups, count, rstds);
    }
    const auto run = elements_.RunAt(tile.first_sample, tile.first_slot, 0.0F, 1.0F);
    return {count, run.grads, run.inputs, elements_.template SampleBytes<T>(), means, rstds};
  }

  // The sums of the tiles of a block, of a sample.
  [[nodiscard]] std::byte* TotalsOf(int64_t sample, int64_t block) const {
    const int64_t row =
        layout_.shares_tasks ? sample * layout_.blocks + block : sample % layout_.chunk_samples % layout_.step_samples;
    return totals_ + static_cast<size_t>(row * layout_.tiles) * sizeof(Sums<double>);
  }

  [[nodiscard]] int64_t TotalsStep() const { return (layout_.shares_tasks ? layout_.blocks : 1) * layout_.tiles; }

  const Normalisation& norm_;
  const NormalisationLayout& layout_;
  const KernelArguments& arguments_;
  const Elements<T> elements_;
  const Terms terms_of_;
  CellNumbers weights_;
  const Scratch<double> own_totals_;
  std::byte* const totals_;
  const int64_t own_slots_;
  const Scratch<float> own_sums_;
  const Table sums_;
  const Scratch<float> statistics_;  // means, then rstds, of the rows of a tile
  int64_t first_row_ = -1;
};

}  // namespace
}  // namespace acl_host
