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
class ArgmaxLayout {
 public:
  static constexpr bool kEachWindowAdds = true;

  ArgmaxLayout(const MaxPool& pool, const WindowTable& table, const std::byte* indices)
      : pool_(pool), table_(table), indices_(indices) {}

  // Computes, for each window of a block, the index of the cell that it adds to. Returns false unless every window
  // chose a cell of its own. A whole plane has all of these cells.
  bool FindCells(const Block& block, const Cells& sums, int32_t* cells) const {
    return pool_.index_type == ACL_INT32 ? FindCellsOf<int32_t>(block, sums, cells)
                                         : FindCellsOf<int64_t>(block, sums, cells);
  }

  // Calls add(y, x, window) for the chosen cell of each window of a block, in order. A position outside its own window
  // chooses nothing: a device compares the cells of a window with the position and finds none.
  template <typename Add>
  void ForChosenCells(const Block& block, const Add& add) const {
    const std::byte* const values = ValuesOf(block);
    int64_t window = 0;
    for (int64_t row = block.row; row < block.row + block.rows; ++row) {
      const int64_t top = Top(pool_, row);
      for (int64_t column = block.column; column < block.column + block.columns; ++column, ++window) {
        const int64_t cell =
            pool_.index_type == ACL_INT32 ? LoadElement<int32_t>(values, window) : LoadElement<int64_t>(values, window);
        const int64_t y = cell / pool_.input.width;
        const int64_t x = cell % pool_.input.width;
        const int64_t left = Left(pool_, column);
        const bool inside = cell >= 0 && y < pool_.input.height && top <= y && y - top < pool_.kernel.height &&
                            left <= x && x - left < pool_.kernel.width;
        if (inside) add(y, x, window);
      }
    }
  }

 private:
  template <typename Index>
  bool FindCellsOf(const Block& block, const Cells& sums, int32_t* cells) const {
    // A float represents the positions of a plane of this size exactly.
    constexpr int64_t kFloatCells = int64_t{1} << 24;
    const bool small = pool_.input.height <= kFloatCells / pool_.input.width;
    const bool whole = sums.height() == pool_.input.height && sums.width() == pool_.input.width;
    if (whole) {
      return small ? FindCellsIn<Index, float, true>(block, sums, cells)
                   : FindCellsIn<Index, double, true>(block, sums, cells);
    }
    return small ? FindCellsIn<Index, float, false>(block, sums, cells)
                 : FindCellsIn<Index, double, false>(block, sums, cells);
  }

  // Floating-point division is vectorised, integer division is not. With enough digits the integer quotient is exact.
  template <typename Index, typename Real, bool kWhole>
  bool FindCellsIn(const Block& block, const Cells& sums, int32_t* __restrict cells) const {
    const int64_t count = block.count();
    const std::byte* __restrict const values = ValuesOf(block);
    const int32_t* __restrict const tops = table_.tops.data();
    const int32_t* __restrict const firsts = table_.firsts.data();
    const uint32_t* __restrict const widths = table_.widths.data();
    const auto width = static_cast<int32_t>(pool_.input.width);
    const auto height = static_cast<uint32_t>(pool_.input.height);
    const auto divisor = static_cast<Real>(width);
    const auto window_height = static_cast<uint32_t>(pool_.kernel.height);
    const auto first_top = static_cast<int32_t>(Top(pool_, block.row));
    const auto sums_top = static_cast<uint32_t>(sums.top);
    const auto sums_left = static_cast<uint32_t>(sums.left);
    const auto sums_height = static_cast<uint32_t>(sums.height());
    const auto sums_width = static_cast<uint32_t>(sums.width());
    const auto none = static_cast<uint32_t>(sums.none());
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
      if constexpr (kWhole) {
        cells[i] = value;
      } else {
        const uint32_t row = static_cast<uint32_t>(y) - sums_top;
        const uint32_t column = x - sums_left;
        const bool held = (row < sums_height) & (column < sums_width);
        cells[i] = static_cast<int32_t>(held ? row * sums_width + column : none);
      }
    }
    return outside == 0;
  }

  [[nodiscard]] const std::byte* ValuesOf(const Block& block) const {
    return indices_ + static_cast<size_t>(block.First(pool_)) * aclDataTypeSize(pool_.index_type);
  }

  const MaxPool& pool_;
  const WindowTable& table_;
  const std::byte* const indices_;
};

}  // namespace
}  // namespace acl_host
