// Every cell of the gradient is the sum of gradOutput over the windows that cover it, each divided by its window's
// divisor, a product of one for each axis.
//
// A row of windows is spread over the columns once, and a row of the gradient is the sum of the spread rows of the
// windows that cover it. Sums are in float32 (in double for DOUBLE), columns before rows before depth and each in a
// fixed order, and are rounded once. Rows that the same windows cover are equal, so they are computed once and copied.
// Each row depends only on its position, so the result does not depend on the number of threads.
#include "families/average_pool/computation.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "families/average_pool/spread.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 32768;

// Computes the rows of one thread.
template <typename T>
class Rows {
 public:
  Rows(const AveragePool& pool, const Windows& windows, const Launch& launch)
      : pool_(pool),
        windows_(windows),
        out_(launch.outputs[0]),
        spread_(pool, windows, launch.inputs[0]),
        sums_(static_cast<size_t>(pool.columns.size)) {}

  // Rows [begin, end), counted through all planes and their depth.
  void Make(int64_t begin, int64_t end) {
    const int64_t height = pool_.rows.size;
    for (int64_t slice = begin / height; slice * height < end; ++slice) {
      const int64_t first = slice * height;
      MakeSlice(slice, std::max(begin - first, int64_t{0}), std::min(end - first, height));
    }
  }

 private:
  // Rows [y, end) of a slice.
  void MakeSlice(int64_t slice, int64_t y, int64_t end) {
    const auto row_bytes = static_cast<size_t>(pool_.columns.size) * sizeof(T);
    const int64_t plane = slice / pool_.depth.size;
    const Range& slices = windows_.depth.cover(slice % pool_.depth.size);
    while (y < end) {
      const Range& rows = windows_.rows.cover(y);
      std::byte* const target = out_ + static_cast<size_t>(slice * pool_.rows.size + y) * row_bytes;
      MakeRow(plane, slices, rows, target);
      int64_t made = 1;
      while (y + made < end && windows_.rows.cover(y + made) == rows) ++made;
      Repeat(target, row_bytes, made);
      y += made;
    }
  }

  // Adds up the rows of windows that cover a row.
  void MakeRow(int64_t plane, const Range& slices, const Range& rows, std::byte* __restrict target) {
    const int64_t width = pool_.columns.size;
    const int64_t count = slices.size() * rows.size();
    if (count == 1) {
      RoundRow<T>(spread_.Make(plane, slices.begin, rows.begin), target, width);
    } else if (count == 2 && spread_.places() > 1) {
      const Wide<T>* __restrict const first = spread_.Make(plane, slices.begin, rows.begin);
      const Wide<T>* __restrict const second = spread_.Make(plane, slices.end - 1, rows.end - 1);
      Store(target, [=](int64_t x) { return first[x] + second[x]; });
    } else {
      std::fill(sums_.begin(), sums_.end(), Wide<T>{});
      for (int64_t slice = slices.begin; slice < slices.end; ++slice) {
        for (int64_t row = rows.begin; row < rows.end; ++row) {
          const Wide<T>* __restrict const spread = spread_.Make(plane, slice, row);
          Wide<T>* __restrict const sums = sums_.data();
          for (int64_t x = 0; x < width; ++x) sums[x] += spread[x];
        }
      }
      RoundRow<T>(sums_.data(), target, width);
    }
  }

  template <typename Value>
  void Store(std::byte* __restrict target, const Value& value) {
    const int64_t width = pool_.columns.size;
    if constexpr (kConverts<T>) {
      Wide<T>* __restrict const sums = sums_.data();
      for (int64_t x = 0; x < width; ++x) sums[x] = value(x);
      RoundRow<T>(sums, target, width);
    } else {
      for (int64_t x = 0; x < width; ++x) StoreRounded<T>(target, x, value(x));
    }
  }

  // Copies the first row to all count rows; each copy is twice as long as the one before.
  static void Repeat(std::byte* first, size_t row_bytes, int64_t count) {
    for (int64_t made = 1; made < count;) {
      const int64_t more = std::min(made, count - made);
      std::memcpy(first + static_cast<size_t>(made) * row_bytes, first, static_cast<size_t>(more) * row_bytes);
      made += more;
    }
  }

  const AveragePool& pool_;
  const Windows& windows_;
  std::byte* const out_;
  SpreadRows<T> spread_;
  std::vector<Wide<T>> sums_;
};

}  // namespace

template <>
void AveragePoolBackward<VECTOR_LEVEL>::Run(const AveragePool& pool, aclDataType type, const Launch& launch) {
  const Windows windows(pool);
  const auto times = [](const PooledAxis& axis) { return axis.pooled / axis.size + 1; };
  const int64_t elements_per_row = pool.columns.size + pool.columns.pooled * times(pool.rows) * times(pool.depth);
  const auto make_rows = [&](auto tag) {
    launch.pool.ParallelFor(pool.planes * pool.depth.size * pool.rows.size, kElementsPerPiece / elements_per_row + 1,
                            [&](int64_t begin, int64_t end) {
                              Rows<typename decltype(tag)::Type>(pool, windows, launch).Make(begin, end);
                            });
  };
  type == ACL_DOUBLE ? make_rows(TypeTag<double>{}) : VisitFloatType(type, make_rows);
}

}  // namespace acl_host
