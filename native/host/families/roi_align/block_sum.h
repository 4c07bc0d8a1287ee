// Adds boxes to a block of RoiAlign's gradient.
//
// The weights and cells of a box are the same for all channels. So the channels of a cell lie side by side in the sums
// of a block, and one vector operation adds to all of them. When all boxes are added, the sums are written as rows of
// planes. In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "blocks.h"
#include "plan/plan.h"
#include "sampling.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

// One number for each channel of a group.
template <int kLanes, typename Sum>
struct alignas(std::min<size_t>(kLanes * sizeof(Sum), kRoiSumAlignment)) Lanes {
  Sum values[kLanes];
};

template <typename AnyLanes, typename Sum>
void AddScaled(AnyLanes& to, const AnyLanes& values, Sum weight) {
  AnyLanes sum = to;
  for (size_t lane = 0; lane < std::size(sum.values); ++lane) sum.values[lane] += weight * values.values[lane];
  to = sum;
}

constexpr int kTileCells = 16;

// Transposes some cells, so that each channel's numbers lie side by side; compilers use vector shuffles.
template <int kLanes>
struct Tile {
  template <typename Sum>
  explicit Tile(const Lanes<kLanes, Sum>* sums) {
    for (int cell = 0; cell < kTileCells; ++cell) {
      for (int lane = 0; lane < kLanes; ++lane) values[lane][cell] = static_cast<float>(sums[cell].values[lane]);
    }
  }
  alignas(64) float values[kLanes][kTileCells];
};

template <int kLanes, typename Sum>
class BlockSum {
  using Cell = Lanes<kLanes, Sum>;

 public:
  BlockSum(const RoiAlign& roi, const KernelArguments& arguments, const RoiBlock& block, std::byte* sums, bool fresh)
      : roi_(roi),
        arguments_(arguments),
        block_(block),
        width_(block.columns.size()),
        fresh_(fresh),
        sums_(reinterpret_cast<Cell*>(sums)),
        touched_(static_cast<size_t>(block.rows.size())) {}

  // Adds each row of bins to the columns' sums first, and these to the rows.
  void Add(const RoiWeighted& box) {
    if (!box.rows.extent().Meets(block_.rows) || !box.columns.extent().Meets(block_.columns)) return;
    for (int64_t bin_row = box.rows.bins().begin; bin_row < box.rows.bins().end; ++bin_row) {
      bool summed = false;
      for (const RoiWeights::Share& share : box.rows.OfBin(bin_row)) {
        const int64_t cell = box.rows.cells()[static_cast<size_t>(share.slot)];
        if (!block_.rows.Contains(cell)) continue;
        if (!summed) SumColumns(box, bin_row);
        summed = true;
        AddRow(cell - block_.rows.begin, box.columns.cells(), static_cast<Sum>(share.weight));
      }
    }
  }

  // Writes runs of rows if these are contiguous in a plane.
  void Write() const {
    const bool whole_rows = width_ == roi_.width;
    for (int64_t row = 0; row < block_.rows.size();) {
      const auto begin = touched_.begin() + row;
      const auto end = whole_rows ? std::find(begin, touched_.end(), static_cast<uint8_t>(*begin == 0)) : begin + 1;
      const int64_t cells = (end - begin) * width_;
      if (*begin != 0) {
        WriteSums(row, cells);
      } else if (fresh_) {
        for (int lane = 0; lane < block_.channels.size(); ++lane) {
          std::memset(RowOf(row, lane), 0, static_cast<size_t>(cells) * sizeof(float));
        }
      }
      row += end - begin;
    }
  }

 private:
  void SumColumns(const RoiWeighted& box, int64_t bin_row) {
    column_sums_.assign(box.columns.cells().size(), {});
    for (int64_t bin = box.columns.bins().begin; bin < box.columns.bins().end; ++bin) {
      const RoiWeights::Shares shares = box.columns.OfBin(bin);
      if (shares.empty()) continue;
      const Cell grad = GradOf(box, bin_row * roi_.pooled_width + bin);
      for (const RoiWeights::Share& share : shares) {
        AddScaled(column_sums_[static_cast<size_t>(share.slot)], grad, static_cast<Sum>(share.weight));
      }
    }
  }

  // Each channel's gradient of a bin, for one sample. A row of bins may need several tiles, and a tile has bins of
  // several rows.
  const Cell& GradOf(const RoiWeighted& box, int64_t bin) {
    const int64_t bins = roi_.pooled_height * roi_.pooled_width;
    // The last tile overlaps the one before, so that it is full.
    const int64_t first = std::min(bin / kTileCells * kTileCells, std::max<int64_t>(bins - kTileCells, 0));
    if (box.index != tile_box_ || first != tile_bin_) {
      tile_box_ = box.index;
      tile_bin_ = first;
      LoadTile((box.index * roi_.channels + block_.channels.begin) * bins + first, bins, box.divisor);
    }
    return tile_[bin - first];
  }

  void LoadTile(int64_t first, int64_t bins, float divisor) {
    alignas(64) float values[kLanes][kTileCells];
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::byte* const from = arguments_.inputs[0] + (first + lane * bins) * int64_t{sizeof(float)};
      if (lane >= block_.channels.size()) {
        std::memset(values[lane], 0, sizeof(values[lane]));
      } else if (bins >= kTileCells) {
        std::memcpy(values[lane], from, sizeof(values[lane]));
      } else {
        std::memcpy(values[lane], from, static_cast<size_t>(bins) * sizeof(float));
      }
    }
    for (int cell = 0; cell < kTileCells; ++cell) {
      for (int lane = 0; lane < kLanes; ++lane) tile_[cell].values[lane] = values[lane][cell] / divisor;
    }
  }

  void AddRow(int64_t row, const std::vector<int64_t>& cells, Sum weight) {
    Cell* const sums = sums_ + row * width_;
    if (touched_[static_cast<size_t>(row)] == 0) {
      touched_[static_cast<size_t>(row)] = 1;
      std::memset(static_cast<void*>(sums), 0, static_cast<size_t>(width_) * sizeof(*sums));
    }
    if (width_ == roi_.width) {
      for (size_t slot = 0; slot < cells.size(); ++slot) AddScaled(sums[cells[slot]], column_sums_[slot], weight);
      return;
    }
    for (size_t slot = 0; slot < cells.size(); ++slot) {
      if (!block_.columns.Contains(cells[slot])) continue;
      AddScaled(sums[cells[slot] - block_.columns.begin], column_sums_[slot], weight);
    }
  }

  void WriteSums(int64_t row, int64_t cells) const {
    const Cell* const sums = sums_ + row * width_;
    int64_t cell = 0;
    for (; cell + kTileCells <= cells; cell += kTileCells) {
      Tile<kLanes> tile(sums + cell);
      for (int lane = 0; lane < block_.channels.size(); ++lane) {
        std::byte* const out = RowOf(row, lane) + cell * int64_t{sizeof(float)};
        for (int i = 0; !fresh_ && i < kTileCells; ++i) tile.values[lane][i] += LoadElement<float>(out, i);
        std::memcpy(out, tile.values[lane], sizeof(tile.values[lane]));
      }
    }
    for (; cell < cells; ++cell) {
      for (int lane = 0; lane < block_.channels.size(); ++lane) {
        std::byte* const out = RowOf(row, lane);
        const auto sum = static_cast<float>(sums[cell].values[lane]);
        StoreElement(out, cell, fresh_ ? sum : LoadElement<float>(out, cell) + sum);
      }
    }
  }

  [[nodiscard]] std::byte* RowOf(int64_t row, int lane) const {
    const int64_t plane = block_.image * roi_.channels + block_.channels.begin + lane;
    const int64_t first_cell = (plane * roi_.height + block_.rows.begin + row) * roi_.width + block_.columns.begin;
    return arguments_.outputs[0] + static_cast<size_t>(first_cell) * sizeof(float);
  }

  const RoiAlign& roi_;
  const KernelArguments& arguments_;
  const RoiBlock& block_;
  const int64_t width_;
  const bool fresh_;
  Cell* const sums_;
  std::vector<uint8_t> touched_;   // rows of the block that have sums
  std::vector<Cell> column_sums_;  // a row of bins, by slot of the box's columns
  int64_t tile_box_ = -1;
  int64_t tile_bin_ = -1;  // the first
  Cell tile_[kTileCells];
};

}  // namespace
}  // namespace acl_host
