// The division of rows into blocks, and the sums of those that lie beside each other.
//
// The sums of a row are those of its parts, which begin at the same elements whatever the processor and the number of
// threads, and are added in the order of SumsAlong also if the rows lie beside each other: so a row has the same bits
// alone. In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "families/softmax/computation.h"
#include "plan/scratch.h"
#include "tensors/lanes.h"

namespace acl_host {
namespace {

// The elements of a block of rows beside each other.
constexpr int64_t kBlock = 32768;
// So many columns are added up at a time that their sums stay near the processor.
constexpr int64_t kStrip = 64;

// Elements [first, first + count) of some rows that lie beside each other: from column `left` on, `width` of them.
struct Block {
  int64_t outer;
  int64_t first;
  int64_t count;
  int64_t left;
  int64_t width;

  // The place of an element of the block's first row.
  [[nodiscard]] int64_t At(const AxisRows& rows, int64_t element) const {
    return (outer * rows.length + first + element) * rows.inner + left;
  }
};

// So many columns that a block's elements stay in the cache between the sum and the results.
inline int64_t WidthOf(const AxisRows& rows) {
  const int64_t length = std::min(rows.length, rows.part_length());
  return std::min(rows.inner, std::clamp<int64_t>(kBlock / length, 64, 1024));
}

// Calls make(worker, block) for each part of the rows. A thread's worker is make_worker(width), for blocks of up to so
// many columns.
template <typename MakeWorker, typename MakeBlock>
void ForBlocks(const AxisRows& rows, ThreadPool& pool, const MakeWorker& make_worker, const MakeBlock& make) {
  const int64_t width = WidthOf(rows);
  const int64_t length = std::min(rows.length, rows.part_length());
  const int64_t across = (rows.inner - 1) / width + 1;
  pool.ParallelFor(rows.outer * rows.parts() * across, Grain(length * width), [&](int64_t begin, int64_t end) {
    const auto worker = make_worker(width);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t left = i % across * width;
      const int64_t first = i / across % rows.parts() * length;
      make(worker, Block{i / across / rows.parts(), first, std::min(length, rows.length - first), left,
                         std::min(width, rows.inner - left)});
    }
  });
}

// The place of a block's numbers in a table that has one of each part of each row.
inline std::byte* NumbersOf(const AxisRows& rows, std::byte* table, const Block& block, int64_t part) {
  return table + ((block.outer * rows.parts() + part) * rows.inner + block.left) * kFloatBytes;
}

// Calls add(place) for each row of such a table, with the place of the number of its first part. That of the next part
// is `inner` behind it.
template <typename Add>
void ForRowsOfParts(const AxisRows& rows, ThreadPool& pool, const Add& add) {
  pool.ParallelFor(rows.outer * rows.inner, Grain(rows.parts()), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) add(row / rows.inner * rows.parts() * rows.inner + row % rows.inner);
  });
}

// Adds up the rows of blocks whose elements lie beside each other.
class ColumnSums {
 public:
  explicit ColumnSums(int64_t most_columns) : strip_sums_(most_columns == 0 ? 0 : kSumsAlong * kStrip) {}

  // term(element, column, lanes) has those of the block from this column on.
  template <typename Term>
  void Add(const Block& block, const Term& term, std::byte* sums) const {
    if (block.count <= kSumsAlong) return AddShort(block, term, sums);
    for (int64_t column = 0; column < block.width; column += kStrip) {
      AddStrip(block, column, std::min(block.width - column, kStrip), term, sums);
    }
  }

 private:
  // Adds up as SumsAlong does: as many sums side by side, and then these by halves. Rows of fewer elements have one
  // element in each.
  template <typename Term>
  static void AddShort(const Block& block, const Term& term, std::byte* sums) {
    ForLanes(block.width, [&](int64_t column, auto lanes) {
      const auto each = [&](int64_t element) { return Filled(0) + term(element, column, lanes); };
      StoreLanes<float>(Folded<1>(each, block.count, 0), sums, column, lanes);
    });
  }

  template <typename Term>
  void AddStrip(const Block& block, int64_t left, int64_t width, const Term& term, std::byte* sums) const {
    std::byte* const side_by_side = strip_sums_.bytes();
    const auto sum = [&](int64_t place) { return side_by_side + place * kStrip * kFloatBytes; };
    std::fill_n(strip_sums_.data(), kSumsAlong * kStrip, 0.0F);
    for (int64_t i = 0; i < block.count; ++i) {
      std::byte* const to = sum(i % kSumsAlong);
      ForLanes(width, [&](int64_t column, auto lanes) {
        const FloatLanes before = LoadLanes<float>(to, column, lanes);
        StoreLanes<float>(before + term(i, left + column, lanes), to, column, lanes);
      });
    }
    ForLanes(width, [&](int64_t column, auto lanes) {
      const auto each = [&](int64_t place) { return LoadLanes<float>(sum(place), column, lanes); };
      StoreLanes<float>(Folded<1>(each, kSumsAlong, 0), sums, left + column, lanes);
    });
  }

  // The sum of element(place), element(place + step), ... below count, by halves.
  template <int64_t kStep, typename Element>
  [[nodiscard]] static FloatLanes Folded(const Element& element, int64_t count, int64_t place) {
    if constexpr (kStep == kSumsAlong) {
      return element(place);
    } else {
      const FloatLanes first = Folded<2 * kStep>(element, count, place);
      if (place + kStep >= count) return first;
      return first + Folded<2 * kStep>(element, count, place + kStep);
    }
  }

  const Scratch<float> strip_sums_;
};

}  // namespace
}  // namespace acl_host
