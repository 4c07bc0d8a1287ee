// Every cell of the gradient is the sum of gradOutput over the windows that cover it, each divided by its window's
// area.
//
// Sums are made in float32, rows before columns and both in ascending order, and rounded once. Cells that the same
// windows cover are equal: rows of them are made once and copied. Each row depends on its position alone, so the result
// does not depend on the number of threads.
#include "computation.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 32768;

struct Range {
  int64_t begin;
  int64_t end;

  [[nodiscard]] int64_t size() const { return end - begin; }
  [[nodiscard]] bool operator==(const Range& other) const { return begin == other.begin && end == other.end; }
};

// The windows along one axis: window i of count covers the cells [floor(i * size / count), ceil((i + 1) * size /
// count)). The fractions are carried from one window to the next, so that no product can overflow.
std::vector<Range> WindowsOf(int64_t size, int64_t count) {
  std::vector<Range> windows(static_cast<size_t>(count));
  int64_t begin = 0;
  int64_t remainder = 0;
  for (Range& window : windows) {
    window.begin = begin;
    begin += size / count;
    // remainder + size % count may exceed 63 bits; the distance to count does not.
    const int64_t distance = count - remainder;
    if (size % count >= distance) {
      ++begin;
      remainder = size % count - distance;
    } else {
      remainder += size % count;
    }
    window.end = begin + (remainder > 0 ? 1 : 0);
  }
  return windows;
}

// For each cell along the axis, the windows that cover it: they are neighbours, because windows begin and end in order.
std::vector<Range> CoversOf(int64_t size, const std::vector<Range>& windows) {
  std::vector<Range> covers(static_cast<size_t>(size));
  const auto count = static_cast<int64_t>(windows.size());
  Range cover{0, 0};
  for (Range& each : covers) {
    const int64_t cell = &each - covers.data();
    while (windows[static_cast<size_t>(cover.begin)].end <= cell) ++cover.begin;
    while (cover.end < count && windows[static_cast<size_t>(cover.end)].begin <= cell) ++cover.end;
    each = cover;
  }
  return covers;
}

// What is the same for all planes.
struct Windows {
  explicit Windows(const AdaptivePool& pool)
      : rows(WindowsOf(pool.height, pool.pooled_height)),
        row_covers(CoversOf(pool.height, rows)),
        columns(WindowsOf(pool.width, pool.pooled_width)),
        column_covers(CoversOf(pool.width, columns)) {
    for (const Range& column : columns) column_sizes.push_back(static_cast<float>(column.size()));
    // There are at most two windows on a cell if there are no more windows than cells.
    pairs = pool.pooled_width <= pool.width && pool.pooled_width < INT32_MAX;
    if (!pairs) return;
    for (const Range& cover : column_covers) {
      first.push_back(static_cast<int32_t>(cover.begin));
      second.push_back(static_cast<int32_t>(cover.size() == 2 ? cover.begin + 1 : pool.pooled_width));
    }
  }

  const std::vector<Range> rows;
  const std::vector<Range> row_covers;
  const std::vector<Range> columns;
  const std::vector<Range> column_covers;
  std::vector<float> column_sizes;

  // For each cell of a row its one or two windows; in place of a second one the number of windows.
  bool pairs;
  std::vector<int32_t> first;
  std::vector<int32_t> second;
};

// Makes the rows of one thread.
template <typename T>
class Rows {
 public:
  Rows(const AdaptivePool& pool, const Windows& windows, const Launch& launch)
      : pool_(pool), windows_(windows), grad_output_(launch.inputs[0]), out_(launch.outputs[0]) {
    shares_.resize(static_cast<size_t>(pool.pooled_width) + 1);  // the last one stays 0
    if constexpr (kConverts<T>) {
      grads_.resize(static_cast<size_t>(pool.pooled_width));
      sums_.resize(static_cast<size_t>(pool.width));
    }
  }

  // Rows [begin, end), counted through all planes.
  void Make(int64_t begin, int64_t end) {
    const auto row_bytes = static_cast<size_t>(pool_.width) * sizeof(T);
    for (int64_t row = begin; row < end;) {
      const int64_t plane = row / pool_.height;
      const int64_t plane_row = plane * pool_.height;
      const Range& cover = windows_.row_covers[static_cast<size_t>(row - plane_row)];
      std::byte* const target = out_ + static_cast<size_t>(row) * row_bytes;
      AddRows(plane, cover);
      Spread(target);
      int64_t made = 1;
      for (++row; row < end && row < plane_row + pool_.height; ++row, ++made) {
        if (!(windows_.row_covers[static_cast<size_t>(row - plane_row)] == cover)) break;
      }
      Repeat(target, row_bytes, made);
    }
  }

 private:
  // The shares of a row's windows, added up over the rows of windows.
  void AddRows(int64_t plane, const Range& cover) {
    const int64_t count = pool_.pooled_width;
    for (int64_t index = cover.begin; index < cover.end; ++index) {
      const auto height = static_cast<float>(windows_.rows[static_cast<size_t>(index)].size());
      const std::byte* const grad =
          grad_output_ + static_cast<size_t>((plane * pool_.pooled_height + index) * count) * sizeof(T);
      if constexpr (kConverts<T>) {
        WidenRow<T>(grad, grads_.data(), count);
        AddRow<float>(reinterpret_cast<const std::byte*>(grads_.data()), height, index == cover.begin);
      } else {
        AddRow<T>(grad, height, index == cover.begin);
      }
    }
  }

  template <typename Source>
  void AddRow(const std::byte* __restrict grad, float height, bool first) {
    const int64_t count = pool_.pooled_width;
    const float* __restrict const sizes = windows_.column_sizes.data();
    float* __restrict const shares = shares_.data();
    if (first) {
      for (int64_t i = 0; i < count; ++i) shares[i] = LoadWide<Source>(grad, i) / (height * sizes[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) shares[i] += LoadWide<Source>(grad, i) / (height * sizes[i]);
    }
  }

  void Spread(std::byte* target) {
    if constexpr (kConverts<T>) {
      SpreadInto<float>(reinterpret_cast<std::byte*>(sums_.data()));
      RoundRow<T>(sums_.data(), target, pool_.width);
    } else {
      SpreadInto<T>(target);
    }
  }

  // Each cell of a row is the sum of its windows' shares.
  template <typename Target>
  void SpreadInto(std::byte* __restrict target) const {
    const float* __restrict const shares = shares_.data();
    if (pool_.width == pool_.pooled_width) {
      for (int64_t x = 0; x < pool_.width; ++x) StoreRounded<Target>(target, x, shares[x]);
    } else if (windows_.pairs) {
      const int32_t* __restrict const first = windows_.first.data();
      const int32_t* __restrict const second = windows_.second.data();
      for (int64_t x = 0; x < pool_.width; ++x) StoreRounded<Target>(target, x, shares[first[x]] + shares[second[x]]);
    } else {
      for (int64_t x = 0; x < pool_.width; ++x) {
        const Range& cover = windows_.column_covers[static_cast<size_t>(x)];
        float sum = 0;
        for (int64_t window = cover.begin; window < cover.end; ++window) sum += shares[window];
        StoreRounded<Target>(target, x, sum);
      }
    }
  }

  // Fills count rows with what is in the first, each copy twice as long as the one before.
  static void Repeat(std::byte* first, size_t row_bytes, int64_t count) {
    for (int64_t made = 1; made < count;) {
      const int64_t more = std::min(made, count - made);
      std::memcpy(first + static_cast<size_t>(made) * row_bytes, first, static_cast<size_t>(more) * row_bytes);
      made += more;
    }
  }

  const AdaptivePool& pool_;
  const Windows& windows_;
  const std::byte* const grad_output_;
  std::byte* const out_;
  std::vector<float> shares_;
  // Rows of float16, widened and not yet rounded.
  std::vector<float> grads_;
  std::vector<float> sums_;
};

}  // namespace

template <>
void AdaptiveAvgPool2dBackward<VECTOR_LEVEL>::Run(const AdaptivePool& pool, aclDataType type, const Launch& launch) {
  const Windows windows(pool);
  const int64_t grad_rows_per_row = pool.pooled_height / pool.height + 1;
  const int64_t elements_per_row = pool.width + pool.pooled_width * grad_rows_per_row;
  VisitFloatType(type, [&](auto tag) {
    launch.pool.ParallelFor(pool.planes * pool.height, kElementsPerPiece / elements_per_row + 1,
                            [&](int64_t begin, int64_t end) {
                              Rows<typename decltype(tag)::Type>(pool, windows, launch).Make(begin, end);
                            });
  });
}

}  // namespace acl_host
