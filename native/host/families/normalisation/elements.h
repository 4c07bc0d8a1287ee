// The elements of a launch, and the sums of their slots. In an unnamed namespace, because each vector level has its
// own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "families/normalisation/computation.h"
#include "families/normalisation/runs.h"
#include "plan/scratch.h"

namespace acl_host {
namespace {

struct Tile {
  int64_t chunk;
  int64_t block;
  int64_t number;  // of the tiles of the block
  int64_t first_sample;
  int64_t end_sample;
  int64_t first_slot;
  int64_t end_slot;

  [[nodiscard]] int64_t slots() const { return end_slot - first_slot; }
};

struct Slot {
  int64_t index;
  int64_t channel;
  int64_t first;  // of the elements of a sample
  int64_t count;
};

template <typename Visit>
void ForSlots(const NormalisedTensor& norm, const NormalisationLayout& layout, const Tile& tile, const Visit& visit) {
  const int64_t of_channel = layout.slots_of_channel;
  const int64_t cells = layout.slot_cells;
  int64_t channel = tile.first_slot / of_channel;
  int64_t cell = tile.first_slot % of_channel * cells;
  for (int64_t slot = tile.first_slot; slot < tile.end_slot; ++slot) {
    visit(Slot{slot, channel, channel * norm.cells + cell, std::min(cells, norm.cells - cell)});
    cell += cells;
    if (cell < norm.cells) continue;
    cell = 0;
    ++channel;
  }
}

template <typename T>
class Elements {
 public:
  Elements(const Normalisation& norm, const KernelArguments& arguments)
      : norm_(norm),
        grads_(arguments.inputs[norm.grad_out.index]),
        // Nobody uses the sums with an input that is not read.
        inputs_(norm.input ? arguments.inputs[norm.input->index] : grads_),
        gradients_(norm.grad_input ? arguments.outputs[norm.grad_input->index] : nullptr) {}

  // The elements of a sample from this one on.
  template <typename Number>
  [[nodiscard]] Run<T, Number> RunAt(int64_t sample, int64_t first, Number mean, Number rstd) const {
    const int64_t at = sample * SampleBytes<T>() + first * int64_t{sizeof(T)};
    return {grads_ + at, inputs_ + at, mean, rstd};
  }

  template <typename To>
  [[nodiscard]] int64_t SampleBytes() const {
    return norm_.channels * norm_.cells * int64_t{sizeof(To)};
  }

  template <typename To>
  [[nodiscard]] std::byte* GradientAt(int64_t sample, int64_t first) const {
    return gradients_ + sample * SampleBytes<To>() + first * int64_t{sizeof(To)};
  }

 private:
  const Normalisation& norm_;
  const std::byte* const grads_;
  const std::byte* const inputs_;
  std::byte* const gradients_;
};

[[nodiscard]] inline float ValueOf(const KernelArguments& arguments, const std::optional<FloatOperand>& operand,
                                   int64_t index, float absent) {
  if (!operand) return absent;
  if (operand->type == ACL_FLOAT) return FloatAt(arguments.inputs[operand->index], index);
  float value = 0;
  VisitFloatType(operand->type, [&](auto tag) {
    value = WidenElement<typename decltype(tag)::Type>(arguments.inputs[operand->index], index);
  });
  return value;
}

// Reads one value in `step`, from the first on.
inline void ReadValues(const KernelArguments& arguments, const std::optional<FloatOperand>& operand, float absent,
                       int64_t first, int64_t step, int64_t count, float* to) {
  std::fill_n(to, count, absent);
  if (!operand) return;
  VisitFloatType(operand->type, [&, elements = arguments.inputs[operand->index]](auto tag) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < count; ++i) to[i] = WidenElement<T>(elements, first + i * step);
  });
}

// A parameter of a tile of short channels, one number for each cell.
class CellNumbers {
 public:
  CellNumbers(const NormalisedTensor& norm, const NormalisationLayout& layout, const KernelArguments& arguments,
              const std::optional<FloatOperand>& operand, float absent)
      : cells_(norm.cells),
        arguments_(arguments),
        operand_(operand),
        absent_(absent),
        numbers_(arguments, operand, norm.cells == 1 ? layout.tile_slots : 0, absent),
        repeated_(layout.is_short && norm.cells > 1 ? layout.tile_slots : 0) {}

  // Valid up to the next call.
  [[nodiscard]] Each Of(const Tile& tile) {
    if (tile.first_slot == first_slot_) return each_;
    first_slot_ = tile.first_slot;
    if (cells_ == 1) {
      each_ = {numbers_.Read(tile.first_slot, tile.slots())};
    } else {
      for (int64_t i = 0; i < tile.slots(); ++i) {
        repeated_.data()[i] = ValueOf(arguments_, operand_, (tile.first_slot + i) / cells_, absent_);
      }
      each_ = {repeated_.bytes()};
    }
    return each_;
  }

 private:
  const int64_t cells_;
  const KernelArguments& arguments_;
  const std::optional<FloatOperand>& operand_;
  const float absent_;
  const Floats numbers_;
  const Scratch<float> repeated_;
  int64_t first_slot_ = -1;
  Each each_{};
};

// Rows of float32 in scratch memory, from this one of each row on.
struct Table {
  std::byte* memory;
  int64_t first;
  int64_t count;

  [[nodiscard]] std::byte* At(int64_t row, int64_t index) const {
    return memory + (row * count + index - first) * kFloatBytes;
  }
  // Two rows for each chunk: sums of each slot.
  [[nodiscard]] std::byte* Grads(int64_t chunk, int64_t slot) const { return At(2 * chunk, slot); }
  [[nodiscard]] std::byte* Products(int64_t chunk, int64_t slot) const { return At(2 * chunk + 1, slot); }
};

// Adds the samples of a tile of short channels to the sums of their slots. run_at(sample) is the tile's part of one.
template <typename RunAt>
void AddSamples(const NormalisationLayout& layout, const Tile& tile, const Table& sums, const RunAt& run_at) {
  constexpr int64_t kTogether = NormalisationLayout::kRowsTogether;
  std::byte* const grads = sums.Grads(tile.chunk, tile.first_slot);
  std::byte* const products = sums.Products(tile.chunk, tile.first_slot);
  if (tile.first_sample % layout.chunk_samples == 0) {
    for (std::byte* const each : {grads, products}) std::fill_n(each, tile.slots() * kFloatBytes, std::byte{});
  }
  const auto for_runs = [&](const auto& add) {
    int64_t sample = tile.first_sample;
    for (; sample + kTogether <= tile.end_sample; sample += kTogether) {
      add(std::array{run_at(sample), run_at(sample + 1), run_at(sample + 2), run_at(sample + 3)});
    }
    for (; sample < tile.end_sample; ++sample) add(std::array{run_at(sample)});
  };
  const auto load = [&](int64_t i, auto lanes) {
    return Sums<FloatLanes>{LoadLanes<float>(grads, i, lanes), LoadLanes<float>(products, i, lanes)};
  };
  const auto store = [&](const Sums<FloatLanes>& all, int64_t i, auto lanes) {
    StoreLanes<float>(all.grad, grads, i, lanes);
    StoreLanes<float>(all.product, products, i, lanes);
  };
  const int64_t slots = tile.slots();
  if (slots <= kFloatLanes) {
    // The sums stay in registers.
    Sums<FloatLanes> all = load(0, slots);
    for_runs([&](const auto& runs) { all = AddRuns(runs, 0, slots, all); });
    return store(all, 0, slots);
  }
  for_runs([&](const auto& runs) {
    ForLanes(slots, [&](int64_t i, auto lanes) { store(AddRuns(runs, i, lanes, load(i, lanes)), i, lanes); });
  });
}

// The sums of some channels over all chunks, which are the gradients of bias and weight.
class ChannelSums {
 public:
  static constexpr int64_t kMost = NormalisationLayout::kMostOfBlock;

  // Zeros if the sums are not needed.
  ChannelSums(const Normalisation& norm, const NormalisationLayout& layout, const Table& sums, int64_t first,
              int64_t count)
      : first_(first), count_(count) {
    std::fill_n(grads_, count, 0);
    std::fill_n(products_, count, 0);
    if (!norm.needs_sums()) return;
    const int64_t of_channel = layout.slots_of_channel;
    for (int64_t chunk = 0; chunk < layout.chunks; ++chunk) {
      Add(sums.Grads(chunk, first * of_channel), of_channel, grads_);
      Add(sums.Products(chunk, first * of_channel), of_channel, products_);
    }
  }

  [[nodiscard]] double GradOf(int64_t channel) const { return grads_[channel - first_]; }
  [[nodiscard]] double ProductOf(int64_t channel) const { return products_[channel - first_]; }

  void WriteGradients(const Normalisation& norm, const KernelArguments& arguments) const {
    if (norm.grad_weight) Round(products_, arguments, *norm.grad_weight, first_, count_);
    if (norm.grad_bias) Round(grads_, arguments, *norm.grad_bias, first_, count_);
  }

 private:
  void Add(const std::byte* sums, int64_t of_channel, double* to) const {
    if (of_channel == 1) return AddRow<float>(sums, count_, to);
    for (int64_t i = 0; i < count_; ++i) {
      for (int64_t slot = 0; slot < of_channel; ++slot) to[i] += double{FloatAt(sums, i * of_channel + slot)};
    }
  }

  const int64_t first_;
  const int64_t count_;
  double grads_[kMost];
  double products_[kMost];
};

// Writes the gradients of the parameters of channels [first, end).
inline void WriteParameters(const Normalisation& norm, const NormalisationLayout& layout,
                            const KernelArguments& arguments, const Table& sums, int64_t first, int64_t end) {
  if (layout.chunks == 1 && layout.slots_of_channel == 1) {
    const auto round = [&](const std::byte* from, const std::optional<FloatOperand>& to) {
      if (to) Round(reinterpret_cast<const float*>(from), arguments, *to, first, end - first);
    };
    round(sums.Products(0, first), norm.grad_weight);
    return round(sums.Grads(0, first), norm.grad_bias);
  }
  for (; first < end; first += ChannelSums::kMost) {
    const int64_t count = std::min(ChannelSums::kMost, end - first);
    ChannelSums(norm, layout, sums, first, count).WriteGradients(norm, arguments);
  }
}

}  // namespace
}  // namespace acl_host
