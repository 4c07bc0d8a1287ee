// Every cell of the gradient is the sum of gradOutput over the windows that chose it.
//
// Sums are made in float32, windows in row-major order, and rounded once. Each plane is made by one thread, so the
// result does not depend on the number of threads.
#include "vector/max_pool2d_with_mask_backward.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "elements.h"
#include "scratch_slots.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 32768;

// Windows of so many are looked at together, in rows; at least one row.
constexpr int64_t kWindowsPerBlock = 2048;

// Rows [begin, end) of the windows of a plane.
struct Block {
  int64_t plane;
  int64_t begin;
  int64_t end;
};

// The rows of the input that a row of windows lies on, which begins at top: what padding covers holds no cell.
struct WindowRow {
  WindowRow(const MaxPool& pool, int64_t row)
      : top(row * pool.stride.height - pool.padding.height),
        begin(std::max<int64_t>(top, 0)),
        end(top + std::min(pool.kernel.height, pool.input.height - top)) {}

  int64_t top;
  int64_t begin;
  int64_t end;
};

int64_t Left(const MaxPool& pool, int64_t column) { return column * pool.stride.width - pool.padding.width; }

bool Contains(const MaxPool& pool, int64_t y, int64_t x) {
  return 0 <= y && y < pool.input.height && 0 <= x && x < pool.input.width;
}

// Where the windows of a block are, row by row, as 32-bit numbers, which make the longer vectors. Blocks begin with a
// row, so that but for its first row it is the same for all of them.
struct WindowTable {
  explicit WindowTable(const MaxPool& pool)
      : fits(std::max({pool.input.height, pool.input.width, pool.kernel.height, pool.kernel.width}) < INT32_MAX / 4 &&
             BandRows(pool) * pool.input.width < INT32_MAX) {
    if (!fits) return;
    const int64_t rows = std::clamp<int64_t>(kWindowsPerBlock / pool.output.width, 1, pool.output.height);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < pool.output.width; ++column) {
        const int64_t left = Left(pool, column);
        const int64_t end = left + std::min(pool.kernel.width, pool.input.width - left);
        tops.push_back(static_cast<int32_t>(row * pool.stride.height));
        lefts.push_back(static_cast<int32_t>(left));
        firsts.push_back(static_cast<int32_t>(std::max<int64_t>(left, 0)));
        widths.push_back(static_cast<uint32_t>(end - std::max<int64_t>(left, 0)));
      }
    }
  }

  bool fits;                     // into 32 bits
  std::vector<int32_t> tops;     // from that of the block's first row
  std::vector<int32_t> lefts;    // may lie on padding
  std::vector<int32_t> firsts;   // the first column that does not
  std::vector<uint32_t> widths;  // of what lies on the input
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

// Planes of float32, which nothing has to be rounded to: the sums are made where they belong. Only for the layout in
// which every window that is added has a cell.
class InPlace {
 public:
  InPlace(const MaxPool& pool, std::byte* out)
      : width_(pool.input.width), cells_(pool.input.height * pool.input.width), out_(reinterpret_cast<float*>(out)) {}

  // Larger planes would leave the cache between being filled with 0 and being added to.
  static bool Fits(const MaxPool& pool, const std::byte* out) {
    constexpr int64_t kMostCells = 65536;
    return pool.input.height <= kMostCells / pool.input.width && reinterpret_cast<uintptr_t>(out) % alignof(float) == 0;
  }

  [[nodiscard]] float* sums() { return sums_; }
  [[nodiscard]] static int64_t base() { return 0; }
  [[nodiscard]] static int64_t none() { return -1; }
  [[nodiscard]] static bool Holds(const WindowRow&) { return true; }

  void Begin(int64_t out_row) {
    sums_ = out_ + out_row * width_;
    std::fill_n(sums_, cells_, 0.0F);
  }
  static void AdvanceTo(int64_t) {}

 private:
  const int64_t width_;
  const int64_t cells_;
  float* const out_;
  float* sums_ = nullptr;
};

// The layout of 910B and 910_93 for windows larger than 1x1: one INT32 for each window, the chosen cell's position in
// its plane.
class ArgmaxLayout {
 public:
  ArgmaxLayout(const MaxPool& pool, const WindowTable& table, const std::byte* indices)
      : pool_(pool), table_(table), indices_(indices) {}

  // Tells for each window of a block the number of the sum that it adds to, the band's being counted from row base.
  // False if that is not one cell of the window itself, for all windows.
  bool FindCells(const Block& block, int64_t base, int32_t, int32_t* cells) const {
    // A float has the digits for the positions of a plane of this size.
    constexpr int64_t kFloatCells = int64_t{1} << 24;
    const bool small = pool_.input.height <= kFloatCells / pool_.input.width;
    return small ? FindCellsIn<float>(block, base, cells) : FindCellsIn<double>(block, base, cells);
  }

  // Calls add(cell, window) for what each window of a block chose, in order. Values that are no cell of their own
  // window choose nothing: a device compares the cells of a window with the value and finds none.
  template <typename Add>
  void ForChosenCells(const Block& block, int64_t base, const Add& add) const {
    const std::byte* const values = ValuesOf(block);
    int64_t window = 0;
    for (int64_t row = block.begin; row < block.end; ++row) {
      const WindowRow rows(pool_, row);
      for (int64_t column = 0; column < pool_.output.width; ++column, ++window) {
        const int64_t cell = LoadElement<int32_t>(values, window);
        const int64_t y = cell / pool_.input.width;
        const int64_t x = cell % pool_.input.width;
        const int64_t left = Left(pool_, column);
        const bool inside = rows.begin <= y && y < rows.end && left <= x && x - left < pool_.kernel.width && cell >= 0;
        if (inside) add(cell - base * pool_.input.width, window);
      }
    }
  }

 private:
  // Unlike integers, floating-point numbers divide in vectors; with enough digits the quotient's integer is exact.
  template <typename Real>
  bool FindCellsIn(const Block& block, int64_t base, int32_t* __restrict cells) const {
    const int64_t count = (block.end - block.begin) * pool_.output.width;
    const std::byte* __restrict const values = ValuesOf(block);
    const int32_t* __restrict const tops = table_.tops.data();
    const int32_t* __restrict const firsts = table_.firsts.data();
    const uint32_t* __restrict const widths = table_.widths.data();
    const auto width = static_cast<int32_t>(pool_.input.width);
    const auto height = static_cast<uint32_t>(pool_.input.height);
    const auto divisor = static_cast<Real>(width);
    const auto window_height = static_cast<uint32_t>(pool_.kernel.height);
    const auto first_top = static_cast<int32_t>(WindowRow(pool_, block.begin).top);
    const auto band_begin = static_cast<uint32_t>(base * pool_.input.width);
    uint32_t outside = 0;
    for (int64_t i = 0; i < count; ++i) {
      const auto value = LoadElement<int32_t>(values, i);
      const auto y = static_cast<int32_t>(static_cast<Real>(value) / divisor);
      const auto x = static_cast<uint32_t>(value) - static_cast<uint32_t>(y) * static_cast<uint32_t>(width);
      const auto window_y = static_cast<uint32_t>(y) - static_cast<uint32_t>(first_top + tops[i]);
      const bool inside = (value >= 0) & (static_cast<uint32_t>(y) < height) & (window_y < window_height) &
                          (x - static_cast<uint32_t>(firsts[i]) < widths[i]);
      outside |= inside ? 0U : 1U;
      cells[i] = static_cast<int32_t>(static_cast<uint32_t>(value) - band_begin);
    }
    return outside == 0;
  }

  [[nodiscard]] const std::byte* ValuesOf(const Block& block) const {
    const int64_t first = (block.plane * pool_.output.height + block.begin) * pool_.output.width;
    return indices_ + static_cast<size_t>(first) * sizeof(int32_t);
  }

  const MaxPool& pool_;
  const WindowTable& table_;
  const std::byte* const indices_;
};

// The layout of 910A, and of 1x1 windows everywhere: UINT16 words [N, C / 16, kH * kW, positions / 16 + 1, 16], where
// bit c of a word tells whether channel c of its 16 chose this cell of the window at this position.
class MaskLayout {
 public:
  MaskLayout(const MaxPool& pool, const WindowTable& table, const std::byte* indices)
      : pool_(pool),
        table_(table),
        indices_(indices),
        words_per_cell_(MaskWordsPerCell(pool)),
        cells_(pool.kernel.height * pool.kernel.width) {
    if (cells_ > kMostCells) return;
    for (int32_t y = 0; y < pool.kernel.height; ++y) {
      for (int32_t x = 0; x < pool.kernel.width; ++x) {
        rows_.push_back(y);
        columns_.push_back(x);
      }
    }
    // Read for windows without a cell: above all rows.
    rows_.push_back(INT32_MIN / 2);
    columns_.push_back(0);
    numbers_.resize(table.tops.size());
  }

  // As above, and none for a window without a bit; false if a window has several.
  bool FindCells(const Block& block, int64_t base, int32_t none, int32_t* __restrict cells) {
    if (numbers_.empty()) return false;
    const int64_t count = (block.end - block.begin) * pool_.output.width;
    if (!FindNumbers(block, count)) return false;
    const uint16_t* __restrict const numbers = numbers_.data();
    const int32_t* __restrict const tops = table_.tops.data();
    const int32_t* __restrict const lefts = table_.lefts.data();
    const int32_t* __restrict const rows = rows_.data();
    const int32_t* __restrict const columns = columns_.data();
    const auto width = static_cast<int32_t>(pool_.input.width);
    const auto height = static_cast<int32_t>(pool_.input.height);
    const auto first_top = static_cast<int32_t>(WindowRow(pool_, block.begin).top);
    const auto band_begin = static_cast<int32_t>(base);
    for (int64_t i = 0; i < count; ++i) {
      const int32_t y = first_top + tops[i] + rows[numbers[i]];
      const int32_t x = lefts[i] + columns[numbers[i]];
      const bool inside = (y >= 0) & (y < height) & (x >= 0) & (x < width);
      cells[i] = inside ? (y - band_begin) * width + x : none;
    }
    return true;
  }

  // As above, for every bit that is set.
  template <typename Add>
  void ForChosenCells(const Block& block, int64_t base, const Add& add) const {
    const std::byte* const words = WordsOf(block);
    const uint16_t bit = BitOf(block.plane);
    int64_t window = 0;
    for (int64_t row = block.begin; row < block.end; ++row) {
      const int64_t top = WindowRow(pool_, row).top;
      for (int64_t column = 0; column < pool_.output.width; ++column, ++window) {
        const int64_t left = Left(pool_, column);
        int64_t word = window;
        for (int64_t y = top; y < top + pool_.kernel.height; ++y) {
          for (int64_t x = left; x < left + pool_.kernel.width; ++x, word += words_per_cell_) {
            const bool chosen = (LoadElement<uint16_t>(words, word) & bit) != 0;
            if (chosen && Contains(pool_, y, x)) add((y - base) * pool_.input.width + x, window);
          }
        }
      }
    }
  }

 private:
  // The numbers of a window's cells, and one that stands for none, have 16 bits; larger windows are not made faster.
  static constexpr int64_t kMostCells = UINT16_MAX;

  // Of the cell that each window chose; false if one chose several.
  bool FindNumbers(const Block& block, int64_t count) {
    uint16_t* __restrict const numbers = numbers_.data();
    const auto no_cell = static_cast<uint16_t>(cells_);
    std::fill_n(numbers, count, no_cell);
    const uint16_t bit = BitOf(block.plane);
    const std::byte* __restrict words = WordsOf(block);
    uint16_t repeated = 0;
    for (int64_t cell = 0; cell < cells_; ++cell, words += static_cast<size_t>(words_per_cell_) * sizeof(uint16_t)) {
      const auto number = static_cast<uint16_t>(cell);
      for (int64_t i = 0; i < count; ++i) {
        const auto chosen = static_cast<uint16_t>(LoadElement<uint16_t>(words, i) & bit);
        repeated = static_cast<uint16_t>(repeated | (numbers[i] != no_cell ? chosen : 0));
        numbers[i] = chosen != 0 ? number : numbers[i];
      }
    }
    return repeated == 0;
  }

  [[nodiscard]] uint16_t BitOf(int64_t plane) const {
    return static_cast<uint16_t>(1U << (plane % pool_.channels % kMaskChannels));
  }
  [[nodiscard]] const std::byte* WordsOf(const Block& block) const {
    const int64_t group =
        block.plane / pool_.channels * MaskChannelGroups(pool_) + block.plane % pool_.channels / kMaskChannels;
    const int64_t word = group * cells_ * words_per_cell_ + block.begin * pool_.output.width;
    return indices_ + static_cast<size_t>(word) * sizeof(uint16_t);
  }

  const MaxPool& pool_;
  const WindowTable& table_;
  const std::byte* const indices_;
  const int64_t words_per_cell_;
  const int64_t cells_;
  std::vector<int32_t> rows_;      // of each cell in its window
  std::vector<int32_t> columns_;   // of each cell in its window
  std::vector<uint16_t> numbers_;  // of each window's chosen cell
};

template <typename T, typename Layout, typename Sums>
class Planes {
 public:
  Planes(const MaxPool& pool, const WindowTable& table, const Launch& launch, Sums sums)
      : pool_(pool),
        table_(table),
        grad_output_(launch.inputs[0]),
        layout_(pool, table, launch.inputs[1]),
        sums_(sums),
        cells_(table.tops.size()),
        grads_(table.tops.size()) {}

  void Make(int64_t plane) {
    const int64_t most_rows = std::max<int64_t>(kWindowsPerBlock / pool_.output.width, 1);
    sums_.Begin(plane * pool_.input.height);
    for (int64_t row = 0; row < pool_.output.height;) {
      const WindowRow first(pool_, row);
      // Windows further down do not reach above this one's first row.
      if (!sums_.Holds(first)) sums_.AdvanceTo(first.begin);
      Block block{plane, row, row + 1};
      const int64_t end = std::min(row + most_rows, pool_.output.height);
      while (block.end < end && sums_.Holds(WindowRow(pool_, block.end))) ++block.end;
      Add(block);
      row = block.end;
    }
    sums_.AdvanceTo(pool_.input.height);
  }

 private:
  void Add(const Block& block) {
    const int64_t count = (block.end - block.begin) * pool_.output.width;
    const int64_t first = (block.plane * pool_.output.height + block.begin) * pool_.output.width;
    const std::byte* __restrict const grad = grad_output_ + static_cast<size_t>(first) * sizeof(T);
    const int32_t* __restrict const cells = cells_.data();
    float* __restrict const sums = sums_.sums();
    if (table_.fits && layout_.FindCells(block, sums_.base(), static_cast<int32_t>(sums_.none()), cells_.data())) {
      // Widened beforehand, in vectors: the additions are made one by one.
      float* __restrict const grads = grads_.data();
      for (int64_t i = 0; i < count; ++i) grads[i] = LoadWide<T>(grad, i);
      for (int64_t i = 0; i < count; ++i) sums[cells[i]] += grads[i];
    } else {
      layout_.ForChosenCells(block, sums_.base(),
                             [&](int64_t cell, int64_t window) { sums[cell] += LoadWide<T>(grad, window); });
    }
  }

  const MaxPool& pool_;
  const WindowTable& table_;
  const std::byte* const grad_output_;
  Layout layout_;
  Sums sums_;
  std::vector<int32_t> cells_;
  std::vector<float> grads_;
};

template <typename T, typename Layout, typename Sums>
void MakePlanes(const MaxPool& pool, const WindowTable& table, const Launch& launch, Sums sums, int64_t begin,
                int64_t end) {
  Planes<T, Layout, Sums> planes(pool, table, launch, sums);
  for (int64_t plane = begin; plane < end; ++plane) planes.Make(plane);
}

template <typename T, typename Layout>
void Compute(const MaxPool& pool, int64_t bands, const Launch& launch) {
  constexpr bool kInPlace = std::is_same_v<T, float> && std::is_same_v<Layout, ArgmaxLayout>;
  const WindowTable table(pool);
  std::byte* const scratch = launch.scratch[0];
  ScratchSlots slots(scratch + (-reinterpret_cast<uintptr_t>(scratch)) % alignof(float), bands, BandBytes(pool));
  std::byte* const out = launch.outputs[0];
  const bool in_place = kInPlace && InPlace::Fits(pool, out);
  const int64_t elements_per_plane = pool.input.height * pool.input.width + pool.output.height * pool.output.width;
  launch.pool.ParallelFor(pool.batches * pool.channels, kElementsPerPiece / elements_per_plane + 1,
                          [&](int64_t begin, int64_t end) {
                            if constexpr (kInPlace) {
                              if (in_place) {
                                return MakePlanes<T, Layout>(pool, table, launch, InPlace(pool, out), begin, end);
                              }
                            }
                            const ScratchSlots::Lease band(slots);
                            MakePlanes<T, Layout>(pool, table, launch, Band<T>(pool, band.memory(), out), begin, end);
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
