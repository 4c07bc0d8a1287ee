// The chosen cells, given as a mask of UINT16 words.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "checks.h"
#include "families/max_pool/windows.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

bool Contains(const MaxPool& pool, int64_t y, int64_t x) {
  return 0 <= y && y < pool.input.height && 0 <= x && x < pool.input.width;
}

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
        cells_(pool.kernel.height * pool.kernel.width) {
    if (cells_ > kMostCells) return;
    for (int32_t y = 0; y < pool.kernel.height; ++y) {
      for (int32_t x = 0; x < pool.kernel.width; ++x) {
        rows_.push_back(y);
        columns_.push_back(x);
      }
    }
    // For windows without a cell: a row above all others.
    rows_.push_back(INT32_MIN / 2);
    columns_.push_back(0);
    numbers_.resize(table.tops.size());
  }

  // See ArgmaxLayout::FindCells. A window without a bit gets none; returns false if a window has several bits.
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

  // See ArgmaxLayout; calls add for every set bit.
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

}  // namespace
}  // namespace acl_host
