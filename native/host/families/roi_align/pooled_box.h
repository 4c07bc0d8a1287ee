// Pools one box, or a part of it, in one channel after the other.
//
// Rows of cells are added up for each row of bins first, a register of columns at a time, and then the columns of each
// bin. In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/scratch.h"
#include "sampling.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

// Columns that are added up together; boxes that reach over more go cell by cell.
constexpr int64_t kMostColumns = 2048;

// Some bins of an axis: the cells of all bins with their weights, side by side, because every channel reads them.
struct PooledAxis {
  struct Share {
    int64_t place;  // from the first cell of all on
    float weight;
  };

  Range bins{0, 0};
  int64_t first_cell = 0;
  int64_t cells = 0;  // from the first one on
  std::vector<Share> shares;
  std::vector<size_t> ends;  // of each bin
  int64_t most_terms = 0;

  // Takes some more cells into the range, so that it fills registers, if the image has as many along the axis.
  void Assign(const RoiWeights& weights, float divisor, int64_t size) {
    bins = weights.bins();
    cells = std::max<int64_t>(weights.extent().size(), 0);
    const int64_t full = (cells + kFloatLanes - 1) / kFloatLanes * kFloatLanes;
    if (full <= size) cells = full;
    first_cell = std::min(weights.extent().begin, size - cells);
    for (int64_t bin = bins.begin; bin < bins.end; ++bin) {
      const RoiWeights::Shares of_bin = weights.OfBin(bin);
      for (const RoiWeights::Share& share : of_bin) {
        const int64_t cell = weights.cells()[static_cast<size_t>(share.slot)];
        shares.push_back({cell - first_cell, static_cast<float>(share.weight / divisor)});
      }
      most_terms = std::max<int64_t>(most_terms, of_bin.end() - of_bin.begin());
      ends.push_back(shares.size());
    }
  }

  // Calls visit(bin, begin, end) with the shares of each bin.
  template <typename Visit>
  void ForBins(const Visit& visit) const {
    const Share* begin = shares.data();
    int64_t bin = bins.begin;
    for (const size_t last : ends) {
      const Share* const end = shares.data() + last;
      visit(bin++, begin, end);
      begin = end;
    }
  }
};

// A box, or a part of it.
struct PooledBox {
  PooledAxis rows;
  PooledAxis columns;
  // Whether its sums have too many terms for float32, or too many columns.
  bool goes_by_cells = false;

  void Assign(const RoiAlign& roi, const RoiBox& box, const RoiPart& row_part, const RoiPart& column_part) {
    RoiWeights weights;
    weights.Assign(box.rows, row_part, roi.height);
    rows.Assign(weights, 1.0F, roi.height);
    weights.Assign(box.columns, column_part, roi.width);
    columns.Assign(weights, box.divisor, roi.width);
    const int64_t most_terms = std::max(rows.most_terms, columns.most_terms);
    goes_by_cells = most_terms > kMostFloatAdditions || columns.cells > kMostColumns;
  }

  [[nodiscard]] bool is_empty() const { return rows.shares.empty() || columns.shares.empty(); }
};

// What a thread needs for it.
template <typename T>
class BoxPool {
 public:
  explicit BoxPool(const RoiAlign& roi) : width_(roi.width), sums_(std::min(kMostColumns, roi.width)) {}

  // Calls put(row, column, mean) for every bin; of a part of a bin, it is its part of the mean.
  template <typename Put>
  void Pool(const PooledBox& box, const std::byte* plane, const Put& put) {
    const int64_t first = box.rows.first_cell * width_ + box.columns.first_cell;
    const std::byte* const cells = plane + first * kBytes;
    box.rows.ForBins([&](int64_t row, const Share* begin, const Share* end) {
      if (begin == end || box.columns.shares.empty()) {
        box.columns.ForBins([&](int64_t column, const Share*, const Share*) { put(row, column, 0.0F); });
      } else if (box.goes_by_cells) {
        AddCells(box, cells, begin, end, [&](int64_t column, double mean) { put(row, column, mean); });
      } else {
        const Share* const last = box.rows.shares.data() + box.rows.shares.size();
        Prefetch(cells, box.columns.cells, end, end + std::min<std::ptrdiff_t>(last - end, end - begin));
        AddRows(cells, box.columns.cells, begin, end);
        AddColumns(box.columns, [&](int64_t column, float mean) { put(row, column, mean); });
      }
    });
  }

 private:
  using Share = PooledAxis::Share;
  static constexpr auto kBytes = int64_t{sizeof(T)};

  struct Term {
    const std::byte* cells;
    float weight;
  };

  // Asks for the rows of the next bins: the rows of a box are too far apart for the processor to foresee them.
  void Prefetch(const std::byte* cells, int64_t count, const Share* begin, const Share* end) const {
    constexpr int64_t kLine = 64;
    for (const Share* share = begin; share != end; ++share) {
      const std::byte* const row = cells + share->place * width_ * kBytes;
      for (int64_t at = 0; at < count * kBytes; at += kLine) __builtin_prefetch(row + at);
    }
  }

  void AddRows(const std::byte* cells, int64_t count, const Share* begin, const Share* end) const {
    const int64_t row_bytes = width_ * kBytes;
    bool adds = false;
    for (const Share* share = begin; share != end; adds = true) {
      std::array<Term, 4> terms{};
      const auto several = std::min<std::ptrdiff_t>(end - share, 4);
      for (std::ptrdiff_t i = 0; i < several; ++i, ++share) {
        terms[static_cast<size_t>(i)] = {cells + share->place * row_bytes, share->weight};
      }
      switch (several) {
        case 1:
          AddTerms<1>(terms, count, adds);
          break;
        case 2:
          AddTerms<2>(terms, count, adds);
          break;
        case 3:
          AddTerms<3>(terms, count, adds);
          break;
        default:
          AddTerms<4>(terms, count, adds);
      }
    }
  }

  template <size_t kTerms>
  void AddTerms(std::array<Term, 4> terms, int64_t count, bool adds) const {
    std::byte* const sums = sums_.bytes();
    ForLanes(count, [&](int64_t i, auto lanes) {
      FloatLanes sum = terms[0].weight * LoadLanes<T>(terms[0].cells, i, lanes);
      for (size_t term = 1; term < kTerms; ++term) {
        sum += terms[term].weight * LoadLanes<T>(terms[term].cells, i, lanes);
      }
      StoreLanes<float>(adds ? LoadLanes<float>(sums, i, lanes) + sum : sum, sums, i, lanes);
    });
  }

  template <typename Put>
  void AddColumns(const PooledAxis& columns, const Put& put) const {
    const float* const sums = sums_.data();
    columns.ForBins([&](int64_t column, const Share* begin, const Share* end) {
      float mean = 0;
      for (const Share* share = begin; share != end; ++share) mean += share->weight * sums[share->place];
      put(column, mean);
    });
  }

  template <typename Put>
  void AddCells(const PooledBox& box, const std::byte* cells, const Share* begin, const Share* end,
                const Put& put) const {
    box.columns.ForBins([&](int64_t column, const Share* first, const Share* last) {
      double mean = 0;
      for (const Share* row = begin; row != end; ++row) {
        const std::byte* const of_row = cells + row->place * width_ * kBytes;
        double sum = 0;
        for (const Share* each = first; each != last; ++each) {
          sum += double{each->weight} * double{WidenElement<T>(of_row, each->place)};
        }
        mean += double{row->weight} * sum;
      }
      put(column, mean);
    });
  }

  const int64_t width_;
  Scratch<float> sums_;
};

}  // namespace
}  // namespace acl_host
