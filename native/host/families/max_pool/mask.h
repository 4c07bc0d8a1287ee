// The chosen cells, given as a mask of UINT16 words.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "families/max_pool/windows.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

// The layout of 910A, and of 1x1 windows everywhere: UINT16 words [N, C / 16, kH * kW, positions / 16 + 1, 16], where
// bit c of a word says whether channel c of its 16 chose this cell of the window at this position.
class MaskLayout {
 public:
  // A window whose mask is empty chose nothing.
  static constexpr bool kEachWindowAdds = false;

  MaskLayout(const MaxPool& pool, const WindowTable& table, const std::byte* indices)
      : pool_(pool),
        table_(table),
        indices_(indices),
        words_per_cell_(MaskWordsPerCell(pool)),
        cells_(pool.kernel.height * pool.kernel.width),
        numbers_(cells_ > kMostCells ? 0 : static_cast<size_t>(table.most_windows)) {}

  // See ArgmaxLayout::FindCells. A window without a bit adds to none of the cells; returns false if a window has
  // several bits.
  bool FindCells(const Block& block, const Cells& sums, int32_t* __restrict cells) {
    if (numbers_.empty()) return false;
    const int64_t count = block.count();
    if (!FindNumbers(block, count)) return false;
    const uint16_t* __restrict const numbers = numbers_.data();
    const int32_t* __restrict const tops = table_.tops.data();
    const int32_t* __restrict const lefts = table_.lefts.data();
    const auto no_cell = static_cast<int32_t>(cells_);
    const auto window_width = static_cast<int32_t>(pool_.kernel.width);
    // Exact, because a number and a width have 16 bits; a division of integers is not vectorised.
    const auto divisor = static_cast<float>(window_width);
    const auto first_top = static_cast<int32_t>(Top(pool_, block.row) - sums.top);
    const auto sums_left = static_cast<int32_t>(sums.left);
    const auto height = static_cast<uint32_t>(sums.height());
    const auto width = static_cast<uint32_t>(sums.width());
    const auto none = static_cast<uint32_t>(sums.none());
    for (int64_t i = 0; i < count; ++i) {
      const int32_t number = numbers[i];
      const auto window_row = static_cast<int32_t>(static_cast<float>(number) / divisor);
      const auto row = static_cast<uint32_t>(first_top + tops[i] + window_row);
      const auto column = static_cast<uint32_t>(lefts[i] - sums_left + number - window_row * window_width);
      const bool held = (number != no_cell) & (row < height) & (column < width);
      cells[i] = static_cast<int32_t>(held ? row * width + column : none);
    }
    return true;
  }

  // See ArgmaxLayout; calls add for every set bit.
  template <typename Add>
  void ForChosenCells(const Block& block, const Add& add) const {
    const std::byte* const words = WordsOf(block);
    const uint16_t bit = BitOf(block.plane);
    int64_t window = 0;
    for (int64_t row = block.row; row < block.row + block.rows; ++row) {
      const int64_t top = Top(pool_, row);
      for (int64_t column = block.column; column < block.column + block.columns; ++column, ++window) {
        const int64_t left = Left(pool_, column);
        int64_t word = window;
        for (int64_t y = top; y < top + pool_.kernel.height; ++y) {
          for (int64_t x = left; x < left + pool_.kernel.width; ++x, word += words_per_cell_) {
            if ((LoadElement<uint16_t>(words, word) & bit) != 0) add(y, x, window);
          }
        }
      }
    }
  }

 private:
  // The number of a window's cell, or of no cell, has 16 bits; larger windows take the slow way.
  static constexpr int64_t kMostCells = UINT16_MAX;

  // Finds the number of the cell that each window chose; false if a window chose several.
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
    const int64_t word = group * cells_ * words_per_cell_ + block.row * pool_.output.width + block.column;
    return indices_ + static_cast<size_t>(word) * sizeof(uint16_t);
  }

  const MaxPool& pool_;
  const WindowTable& table_;
  const std::byte* const indices_;
  const int64_t words_per_cell_;
  const int64_t cells_;
  std::vector<uint16_t> numbers_;  // of each window's chosen cell
};

}  // namespace
}  // namespace acl_host
