#include "computation.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <vector>

#include "tensors/elements.h"
#include "tensors/sums.h"

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
  BlockSum(const RoiPlanes& planes, const RoiBlock& block, std::byte* sums, bool fresh)
      : roi_(planes.roi),
        planes_(planes),
        block_(block),
        fresh_(fresh),
        sums_(reinterpret_cast<Cell*>(sums)),
        touched_(static_cast<size_t>(block.rows)) {}

  // Adds each row of bins to the columns' sums first, and these to the rows.
  void Add(const RoiWeighted& box) {
    const int64_t last_row = block_.first_row + block_.rows;
    if (box.rows.cells_begin() >= last_row || box.rows.cells_end() <= block_.first_row) return;
    const int64_t last_column = block_.first_column + block_.columns;
    if (box.columns.cells_begin() >= last_column || box.columns.cells_end() <= block_.first_column) return;
    for (int64_t bin_row = box.rows.first_bin(); bin_row < box.rows.end_bin(); ++bin_row) {
      bool summed = false;
      for (const RoiWeights::Share& share : box.rows.OfBin(bin_row)) {
        const int64_t cell = box.rows.cells()[static_cast<size_t>(share.slot)];
        if (cell < block_.first_row || cell >= last_row) continue;
        if (!summed) SumColumns(box, bin_row);
        summed = true;
        AddRow(cell - block_.first_row, box.columns.cells(), static_cast<Sum>(share.weight));
      }
    }
  }

  // Writes runs of rows if these are contiguous in a plane.
  void Write() const {
    const bool whole_rows = block_.columns == roi_.width;
    for (int64_t row = 0; row < block_.rows;) {
      const auto begin = touched_.begin() + row;
      const auto end = whole_rows ? std::find(begin, touched_.end(), static_cast<uint8_t>(*begin == 0)) : begin + 1;
      const int64_t cells = (end - begin) * block_.columns;
      if (*begin != 0) {
        WriteSums(row, cells);
      } else if (fresh_) {
        for (int lane = 0; lane < block_.channels; ++lane) {
          std::memset(RowOf(row, lane), 0, static_cast<size_t>(cells) * sizeof(float));
        }
      }
      row += end - begin;
    }
  }

 private:
  void SumColumns(const RoiWeighted& box, int64_t bin_row) {
    column_sums_.assign(box.columns.cells().size(), {});
    for (int64_t bin = box.columns.first_bin(); bin < box.columns.end_bin(); ++bin) {
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
      LoadTile((box.index * roi_.channels + block_.first_channel) * bins + first, bins, box.divisor);
    }
    return tile_[bin - first];
  }

  void LoadTile(int64_t first, int64_t bins, float divisor) {
    alignas(64) float values[kLanes][kTileCells];
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::byte* const from = planes_.grad_output + (first + lane * bins) * int64_t{sizeof(float)};
      if (lane >= block_.channels) {
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
    Cell* const sums = sums_ + row * block_.columns;
    if (touched_[static_cast<size_t>(row)] == 0) {
      touched_[static_cast<size_t>(row)] = 1;
      std::memset(static_cast<void*>(sums), 0, static_cast<size_t>(block_.columns) * sizeof(*sums));
    }
    if (block_.columns == roi_.width) {
      for (size_t slot = 0; slot < cells.size(); ++slot) AddScaled(sums[cells[slot]], column_sums_[slot], weight);
      return;
    }
    for (size_t slot = 0; slot < cells.size(); ++slot) {
      const int64_t column = cells[slot] - block_.first_column;
      if (0 <= column && column < block_.columns) AddScaled(sums[column], column_sums_[slot], weight);
    }
  }

  void WriteSums(int64_t row, int64_t cells) const {
    const Cell* const sums = sums_ + row * block_.columns;
    int64_t cell = 0;
    for (; cell + kTileCells <= cells; cell += kTileCells) {
      Tile<kLanes> tile(sums + cell);
      for (int lane = 0; lane < block_.channels; ++lane) {
        std::byte* const out = RowOf(row, lane) + cell * int64_t{sizeof(float)};
        for (int i = 0; !fresh_ && i < kTileCells; ++i) tile.values[lane][i] += LoadElement<float>(out, i);
        std::memcpy(out, tile.values[lane], sizeof(tile.values[lane]));
      }
    }
    for (; cell < cells; ++cell) {
      for (int lane = 0; lane < block_.channels; ++lane) {
        std::byte* const out = RowOf(row, lane);
        const auto sum = static_cast<float>(sums[cell].values[lane]);
        StoreElement(out, cell, fresh_ ? sum : LoadElement<float>(out, cell) + sum);
      }
    }
  }

  [[nodiscard]] std::byte* RowOf(int64_t row, int lane) const {
    const int64_t plane = block_.image * roi_.channels + block_.first_channel + lane;
    const int64_t first_cell = (plane * roi_.height + block_.first_row + row) * roi_.width + block_.first_column;
    return planes_.grad_input + static_cast<size_t>(first_cell) * sizeof(float);
  }

  const RoiAlign& roi_;
  const RoiPlanes& planes_;
  const RoiBlock& block_;
  const bool fresh_;
  Cell* const sums_;
  std::vector<uint8_t> touched_;   // rows of the block that have sums
  std::vector<Cell> column_sums_;  // a row of bins, by slot of the box's columns
  int64_t tile_box_ = -1;
  int64_t tile_bin_ = -1;  // the first
  Cell tile_[kTileCells];
};

template <int kLanes, typename Sum>
void Add(const RoiPlanes& planes, const RoiBlock& block, std::byte* sums, const RoiWeighted* boxes,
         const RoiWeighted* boxes_end, bool fresh) {
  BlockSum<kLanes, Sum> sum(planes, block, sums, fresh);
  for (; boxes != boxes_end; ++boxes) sum.Add(*boxes);
  sum.Write();
}

// Sums of the double size are made for half of the rows at a time, or of the columns of a single row.
template <int kLanes>
void AddLong(const RoiPlanes& planes, const RoiBlock& block, std::byte* sums, const RoiWeighted* boxes,
             const RoiWeighted* boxes_end, bool fresh) {
  const int64_t rows = std::max<int64_t>(block.rows / 2, 1);
  const int64_t columns = block.rows > 1 ? block.columns : std::max<int64_t>(block.columns / 2, 1);
  for (int64_t row = 0; row < block.rows; row += rows) {
    for (int64_t column = 0; column < block.columns; column += columns) {
      RoiBlock part = block;
      part.first_row += row;
      part.rows = std::min(rows, block.rows - row);
      part.first_column += column;
      part.columns = std::min(columns, block.columns - column);
      Add<kLanes, LongSum<float>>(planes, part, sums, boxes, boxes_end, fresh);
    }
  }
}

}  // namespace

template <>
void RoiAlignV2Backward<VECTOR_LEVEL>::Run(const RoiPlanes& planes, const RoiBlock& block, int64_t lanes,
                                           std::byte* sums, const RoiWeighted* boxes, const RoiWeighted* boxes_end,
                                           bool long_sums, bool fresh) {
  const auto add = [&](auto count) {
    constexpr int kLanes = decltype(count)::value;
    (long_sums ? AddLong<kLanes> : Add<kLanes, float>)(planes, block, sums, boxes, boxes_end, fresh);
  };
  if (lanes == 16) return add(std::integral_constant<int, 16>{});
  if (lanes == 4) return add(std::integral_constant<int, 4>{});
  add(std::integral_constant<int, 1>{});
}

}  // namespace acl_host
