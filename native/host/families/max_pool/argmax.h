// The chosen cells, given as INT32 or INT64 positions.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "families/max_pool/windows.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

// One integer for each window: the position of the chosen cell in its plane. Masks of 910B and 910_93 have INT32
// positions for windows larger than 1x1.
template <typename Index>
class ArgmaxLayout {
 public:
  static constexpr bool kEachWindowAdds = true;

  ArgmaxLayout(const MaxPool& pool, const WindowTable& table, const std::byte* indices)
      : pool_(pool), table_(table), indices_(indices) {}

  // Finds for each window of a block the number of the sum that it adds to, counted from row base. Returns false unless
  // every window chose a cell of its own.
  bool FindCells(const Block& block, int64_t base, int32_t, int32_t* cells) const {
    // A float represents the positions of a plane of this size exactly.
    constexpr int64_t kFloatCells = int64_t{1} << 24;
    const bool small = pool_.input.height <= kFloatCells / pool_.input.width;
    return small ? FindCellsIn<float>(block, base, cells) : FindCellsIn<double>(block, base, cells);
  }

  // Calls add(cell, window) for the chosen cell of each window of a block, in order. A position outside its own window
  // chooses nothing: a device compares the cells of a window with the position and finds none.
  template <typename Add>
  void ForChosenCells(const Block& block, int64_t base, const Add& add) const {
    const std::byte* const values = ValuesOf(block);
    int64_t window = 0;
    for (int64_t row = block.begin; row < block.end; ++row) {
      const WindowRow rows(pool_, row);
      for (int64_t column = 0; column < pool_.output.width; ++column, ++window) {
        const int64_t cell = LoadElement<Index>(values, window);
        const int64_t y = cell / pool_.input.width;
        const int64_t x = cell % pool_.input.width;
        const int64_t left = Left(pool_, column);
        const bool inside = rows.begin <= y && y < rows.end && left <= x && x - left < pool_.kernel.width && cell >= 0;
        if (inside) add(cell - base * pool_.input.width, window);
      }
    }
  }

 private:
  // Floating-point division is vectorised, integer division is not. With enough digits the integer quotient is exact.
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
      const auto position = LoadElement<Index>(values, i);
      const auto value = static_cast<int32_t>(position);
      const auto y = static_cast<int32_t>(static_cast<Real>(value) / divisor);
      const auto x = static_cast<uint32_t>(value) - static_cast<uint32_t>(y) * static_cast<uint32_t>(width);
      const auto window_y = static_cast<uint32_t>(y) - static_cast<uint32_t>(first_top + tops[i]);
      const bool inside = (position == value) & (value >= 0) & (static_cast<uint32_t>(y) < height) &
                          (window_y < window_height) & (x - static_cast<uint32_t>(firsts[i]) < widths[i]);
      outside |= inside ? 0U : 1U;
      cells[i] = static_cast<int32_t>(static_cast<uint32_t>(value) - band_begin);
    }
    return outside == 0;
  }

  [[nodiscard]] const std::byte* ValuesOf(const Block& block) const {
    const int64_t first = (block.plane * pool_.output.height + block.begin) * pool_.output.width;
    return indices_ + static_cast<size_t>(first) * sizeof(Index);
  }

  const MaxPool& pool_;
  const WindowTable& table_;
  const std::byte* const indices_;
};

}  // namespace
}  // namespace acl_host
