// Every cell of the gradient is the sum of gradOutput over the windows that chose it.
//
// Sums are made in float32, windows in row-major order, and rounded once. Each plane is made by one thread, so the
// result does not depend on the number of threads.
#include "vector/max_pool2d_with_mask_backward.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "elements.h"
#include "scratch_slots.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 32768;

// What of a row of windows lies on the input: what the padding covers holds no cell.
struct WindowRow {
  WindowRow(const MaxPool& pool, int64_t row_in)
      : row(row_in),
        top(row * pool.stride.height - pool.padding.height),
        begin(std::max<int64_t>(top, 0)),
        end(top + std::min(pool.kernel.height, pool.input.height - top)) {}

  int64_t row;
  int64_t top;
  int64_t begin;
  int64_t end;
};

// The sums of the rows from base on, of one plane after the other. Where they are not yet added to, they are 0.
template <typename T>
class Band {
 public:
  Band(const MaxPool& pool, std::byte* memory, std::byte* out)
      : width_(pool.input.width), rows_(BandRows(pool)), sums_(reinterpret_cast<float*>(memory)), out_(out) {
    std::memset(memory, 0, BandBytes(pool));
  }

  [[nodiscard]] float* sums() { return sums_; }
  [[nodiscard]] int64_t base() const { return base_; }
  // The number of the sum that no cell gets.
  [[nodiscard]] int64_t none() const { return rows_ * width_; }
  [[nodiscard]] bool Holds(const WindowRow& windows) const { return windows.end <= base_ + rows_; }

  // Begins a plane; out_row counts rows through all planes.
  void Begin(int64_t out_row) {
    base_ = 0;
    out_row_ = out_row;
  }

  // Rounds and stores the rows before row.
  void AdvanceTo(int64_t row) {
    while (base_ < row) {
      const int64_t rows = std::min(row - base_, rows_);
      const int64_t cells = rows * width_;
      Store(out_ + static_cast<size_t>((out_row_ + base_) * width_) * sizeof(T), cells);
      std::copy(sums_ + cells, sums_ + none(), sums_);
      std::fill(sums_ + none() - cells, sums_ + none(), 0.0F);
      base_ += rows;
    }
  }

 private:
  void Store(std::byte* __restrict out, int64_t cells) const {
    const float* __restrict const sums = sums_;
    for (int64_t cell = 0; cell < cells; ++cell) StoreRounded<T>(out, cell, sums[cell]);
  }

  const int64_t width_;
  const int64_t rows_;
  float* const sums_;
  std::byte* const out_;
  int64_t base_ = 0;
  int64_t out_row_ = 0;
};

// The layout of 910B and 910_93 for windows larger than 1x1: one INT32 for each window, the chosen cell's position in
// its plane.
class ArgmaxLayout {
 public:
  ArgmaxLayout(const MaxPool& pool, const std::byte* indices) : pool_(pool), indices_(indices) {
    for (int64_t column = 0; column < pool.output.width; ++column) {
      const int64_t left = column * pool.stride.width - pool.padding.width;
      const int64_t last = left + std::min(pool.kernel.width, pool.input.width - left) - 1;
      first_.push_back(Clamp(std::max<int64_t>(left, 0)));
      last_.push_back(Clamp(last));
    }
  }

  // Tells for each window of a row the number of the sum it adds to, the band's being counted from its base, or none.
  // Values that are no cell of their own window choose nothing: a device compares the cells of a window with the value
  // and finds none. Always true: there is one cell at most.
  bool FindCells(int64_t plane, const WindowRow& windows, int64_t base, int64_t none, int64_t* __restrict cells) {
    const int64_t count = pool_.output.width;
    const std::byte* const values =
        indices_ + static_cast<size_t>((plane * pool_.output.height + windows.row) * count) * sizeof(int32_t);
    const int32_t* __restrict const first = first_.data();
    const int32_t* __restrict const last = last_.data();
    const int32_t top = Clamp(windows.begin);
    const int32_t bottom = Clamp(windows.end - 1);
    const int32_t width = Clamp(pool_.input.width);
    const auto divisor = static_cast<double>(pool_.input.width);
    const int64_t band_begin = base * pool_.input.width;
    for (int64_t column = 0; column < count; ++column) {
      const auto value = LoadElement<int32_t>(values, column);
      // Exact, because a double has more digits than both; and unlike integers doubles divide in vectors.
      const auto y = static_cast<int32_t>(static_cast<double>(value) / divisor);
      const int32_t x = value - y * width;
      const bool inside = (y >= top) & (y <= bottom) & (x >= first[column]) & (x <= last[column]);
      cells[column] = inside ? value - band_begin : none;
    }
    return true;
  }

  template <typename Add>
  void ForChosenCells(int64_t, const WindowRow&, int64_t, const Add&) const {}

 private:
  // What is clamped is beyond all positions that there are.
  static int32_t Clamp(int64_t value) { return static_cast<int32_t>(std::min<int64_t>(value, INT32_MAX)); }

  const MaxPool& pool_;
  const std::byte* const indices_;
  std::vector<int32_t> first_;
  std::vector<int32_t> last_;
};

// The layout of 910A, and of 1x1 windows everywhere: UINT16 words [N, C / 16, kH * kW, positions / 16 + 1, 16], where
// bit c of a word tells whether channel c of its 16 chose this cell of the window at this position.
class MaskLayout {
 public:
  MaskLayout(const MaxPool& pool, const std::byte* indices)
      : pool_(pool),
        indices_(indices),
        words_per_cell_(MaskWordsPerCell(pool)),
        cells_(pool.kernel.height * pool.kernel.width),
        numbers_(static_cast<size_t>(pool.output.width)) {
    if (cells_ >= kNoCell) return;
    for (int32_t y = 0; y < pool.kernel.height; ++y) {
      for (int32_t x = 0; x < pool.kernel.width; ++x) places_.push_back({y, x});
    }
    places_.push_back({0, 0});  // read, but not used, for windows without a cell
  }

  // As above; false if a window has several bits set.
  bool FindCells(int64_t plane, const WindowRow& windows, int64_t base, int64_t none, int64_t* __restrict cells) {
    if (places_.empty()) return false;
    const int64_t count = pool_.output.width;
    uint16_t* __restrict const numbers = numbers_.data();
    const auto no_cell = static_cast<uint16_t>(cells_);
    std::fill_n(numbers, count, no_cell);
    const uint16_t bit = BitOf(plane);
    const std::byte* words = WordsOf(plane, windows);
    uint16_t repeated = 0;
    for (int64_t cell = 0; cell < cells_; ++cell, words += static_cast<size_t>(words_per_cell_) * sizeof(uint16_t)) {
      const auto number = static_cast<uint16_t>(cell);
      for (int64_t column = 0; column < count; ++column) {
        const uint16_t chosen = LoadElement<uint16_t>(words, column) & bit;
        repeated = static_cast<uint16_t>(repeated | (numbers[column] != no_cell ? chosen : 0));
        numbers[column] = chosen != 0 ? number : numbers[column];
      }
    }
    for (int64_t column = 0; column < count; ++column) {
      const Place& place = places_[numbers[column]];
      const int64_t y = windows.top + place.y;
      const int64_t x = Left(column) + place.x;
      const bool inside = numbers[column] != no_cell && Contains(y, x);
      cells[column] = inside ? (y - base) * pool_.input.width + x : none;
    }
    return repeated == 0;
  }

  // Calls add(cell, column) for every bit that is set in a row of windows, in order.
  template <typename Add>
  void ForChosenCells(int64_t plane, const WindowRow& windows, int64_t base, const Add& add) const {
    const std::byte* const words = WordsOf(plane, windows);
    const uint16_t bit = BitOf(plane);
    for (int64_t column = 0; column < pool_.output.width; ++column) {
      int64_t word = column;
      for (int64_t y = windows.top; y < windows.top + pool_.kernel.height; ++y) {
        for (int64_t x = Left(column); x < Left(column) + pool_.kernel.width; ++x, word += words_per_cell_) {
          const bool chosen = (LoadElement<uint16_t>(words, word) & bit) != 0;
          if (chosen && Contains(y, x)) add((y - base) * pool_.input.width + x, column);
        }
      }
    }
  }

 private:
  // The numbers of a window's cells, and one that stands for none, have 16 bits; larger windows are not made faster.
  static constexpr int64_t kNoCell = UINT16_MAX;

  struct Place {
    int32_t y;
    int32_t x;
  };

  [[nodiscard]] uint16_t BitOf(int64_t plane) const {
    return static_cast<uint16_t>(1U << (plane % pool_.channels % kMaskChannels));
  }
  [[nodiscard]] const std::byte* WordsOf(int64_t plane, const WindowRow& windows) const {
    const int64_t group = plane / pool_.channels * MaskChannelGroups(pool_) + plane % pool_.channels / kMaskChannels;
    const int64_t word = group * cells_ * words_per_cell_ + windows.row * pool_.output.width;
    return indices_ + static_cast<size_t>(word) * sizeof(uint16_t);
  }
  [[nodiscard]] int64_t Left(int64_t column) const { return column * pool_.stride.width - pool_.padding.width; }
  [[nodiscard]] bool Contains(int64_t y, int64_t x) const {
    return 0 <= y && y < pool_.input.height && 0 <= x && x < pool_.input.width;
  }

  const MaxPool& pool_;
  const std::byte* const indices_;
  const int64_t words_per_cell_;
  const int64_t cells_;
  std::vector<Place> places_;      // of each cell in its window
  std::vector<uint16_t> numbers_;  // of each window's chosen cell
};

template <typename T, typename Layout>
class Planes {
 public:
  Planes(const MaxPool& pool, const Launch& launch, std::byte* band)
      : pool_(pool),
        grad_output_(launch.inputs[0]),
        layout_(pool, launch.inputs[1]),
        band_(pool, band, launch.outputs[0]) {
    cells_.resize(static_cast<size_t>(pool.output.width));
  }

  void Make(int64_t plane) {
    band_.Begin(plane * pool_.input.height);
    for (int64_t row = 0; row < pool_.output.height; ++row) {
      const WindowRow windows(pool_, row);
      // Windows further down do not reach above this one's first row.
      if (!band_.Holds(windows)) band_.AdvanceTo(windows.begin);
      AddRow(plane, windows);
    }
    band_.AdvanceTo(pool_.input.height);
  }

 private:
  void AddRow(int64_t plane, const WindowRow& windows) {
    const int64_t count = pool_.output.width;
    const std::byte* const grad =
        grad_output_ + static_cast<size_t>((plane * pool_.output.height + windows.row) * count) * sizeof(T);
    float* const sums = band_.sums();
    if (layout_.FindCells(plane, windows, band_.base(), band_.none(), cells_.data())) {
      for (int64_t i = 0; i < count; ++i) sums[cells_[static_cast<size_t>(i)]] += LoadWide<T>(grad, i);
    } else {
      layout_.ForChosenCells(plane, windows, band_.base(),
                             [&](int64_t cell, int64_t column) { sums[cell] += LoadWide<T>(grad, column); });
    }
  }

  const MaxPool& pool_;
  const std::byte* const grad_output_;
  Layout layout_;
  Band<T> band_;
  std::vector<int64_t> cells_;
};

template <typename T, typename Layout>
void Compute(const MaxPool& pool, int64_t bands, const Launch& launch) {
  ScratchSlots slots(launch.scratch[0], bands, BandBytes(pool));
  const int64_t elements_per_plane = pool.input.height * pool.input.width + pool.output.height * pool.output.width;
  launch.pool.ParallelFor(pool.batches * pool.channels, kElementsPerPiece / elements_per_plane + 1,
                          [&](int64_t begin, int64_t end) {
                            const ScratchSlots::Lease band(slots);
                            Planes<T, Layout> planes(pool, launch, band.memory());
                            for (int64_t plane = begin; plane < end; ++plane) planes.Make(plane);
                          });
}

}  // namespace

template <>
void MaxPool2dWithMaskBackward<VECTOR_LEVEL>::Run(const MaxPool& pool, MaskKind kind, aclDataType type, int64_t bands,
                                                  const Launch& launch) {
  VisitFloatType(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    kind == MaskKind::kArgmax ? Compute<T, ArgmaxLayout>(pool, bands, launch)
                              : Compute<T, MaskLayout>(pool, bands, launch);
  });
}

}  // namespace acl_host
