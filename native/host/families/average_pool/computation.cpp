// Every cell of the gradient is the sum of gradOutput over the windows that cover it, each divided by its window's
// divisor, a product of one for each axis.
//
// A row of windows is added up over the columns once, and a row of the gradient is the sum of these column sums over
// the rows of windows that cover it. Columns are added up before rows before depth, each in a fixed order, and sums are
// rounded once. Rows that the same windows cover are equal, so they are computed once
// and copied.
// Each row depends only on its position, so the result does not depend on the number of threads.
#include "families/average_pool/computation.h"

#include <algorithm>
#include <cstring>

#include "families/average_pool/column_sums.h"
#include "plan/scratch.h"
#include "plan/tiles.h"
#include "tensors/elements.h"
#include "tensors/rows.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

// Computes the tiles of one thread, with sums of the type Sum.
template <typename T, typename Sum>
class AveragePoolRows {
 public:
  AveragePoolRows(const AveragePool& pool, const KernelArguments& arguments)
      : pool_(pool),
        out_(arguments.outputs[0]),
        column_sums_(pool, arguments.inputs[0]),
        depth_windows_(pool.depth, pool.depth.size, FindWindowsOver),
        row_windows_(pool.rows, pool.rows.size, FindWindowsOver),
        sum_memory_(ColumnSums<T, Sum>::TileColumns(pool)),
        sums_(sum_memory_.data()) {}

  // The planes of the tile are the slices of all planes.
  void SetTile(const Tile& tile) {
    column_sums_.SetTile(tile.left, tile.right);
    width_ = tile.width();
    plane_ = tile.plane / pool_.depth.size;
    slices_ = depth_windows_.At(tile.plane % pool_.depth.size);
  }

  // Computes all rows that the same windows cover.
  int64_t MakeRows(const Tile& tile, int64_t y, int64_t first_cell) {
    const Range rows = row_windows_.At(y);
    std::byte* const target = out_ + static_cast<size_t>(first_cell) * sizeof(T);
    MakeRow(rows, target);
    int64_t made = 1;
    while (y + made < tile.bottom && row_windows_.At(y + made) == rows) ++made;
    Repeat(target, made);
    return made;
  }

 private:
  // Adds up the rows of windows that cover a row.
  void MakeRow(const Range& rows, std::byte* __restrict target) {
    const int64_t width = width_;
    const int64_t count = slices_.size() * rows.size();
    if (count == 1) {
      RoundRow<T>(column_sums_.Make(plane_, slices_.begin, rows.begin), target, width);
    } else if (count == 2 && column_sums_.kept_rows() > 1) {
      const Sum* __restrict const first = column_sums_.Make(plane_, slices_.begin, rows.begin);
      const Sum* __restrict const second = column_sums_.Make(plane_, slices_.end - 1, rows.end - 1);
      Store(target, [=](int64_t x) { return first[x] + second[x]; });
    } else {
      std::fill_n(sums_, width, Sum{});
      for (int64_t slice = slices_.begin; slice < slices_.end; ++slice) {
        for (int64_t row = rows.begin; row < rows.end; ++row) {
          const Sum* __restrict const added = column_sums_.Make(plane_, slice, row);
          Sum* __restrict const sums = sums_;
          for (int64_t x = 0; x < width; ++x) sums[x] += added[x];
        }
      }
      RoundRow<T>(sums_, target, width);
    }
  }

  template <typename Value>
  void Store(std::byte* __restrict target, const Value& value) {
    const int64_t width = width_;
    if constexpr (kConverts<T>) {
      Sum* __restrict const sums = sums_;
      for (int64_t x = 0; x < width; ++x) sums[x] = value(x);
      RoundRow<T>(sums, target, width);
    } else {
      for (int64_t x = 0; x < width; ++x) StoreRounded<T>(target, x, static_cast<Wide<T>>(value(x)));
    }
  }

  // Copies the first row to all count rows. If a tile has the whole rows, each copy is twice as long as the one before.
  void Repeat(std::byte* first, int64_t count) const {
    const auto row_bytes = static_cast<size_t>(pool_.columns.size) * sizeof(T);
    const bool is_whole = width_ == pool_.columns.size;
    for (int64_t made = 1; made < count;) {
      const int64_t more = is_whole ? std::min(made, count - made) : 1;
      const size_t bytes = is_whole ? static_cast<size_t>(more) * row_bytes : static_cast<size_t>(width_) * sizeof(T);
      std::memcpy(first + static_cast<size_t>(made) * row_bytes, first, bytes);
      made += more;
    }
  }

  const AveragePool& pool_;
  std::byte* const out_;
  ColumnSums<T, Sum> column_sums_;
  Stretch<PooledAxis, Range> depth_windows_;
  Stretch<PooledAxis, Range> row_windows_;

  // The tile.
  int64_t width_ = 0;
  int64_t plane_ = 0;
  Range slices_{0, 0};  // that cover it

  Scratch<Sum> sum_memory_;
  Sum* const sums_;
};

}  // namespace

template <>
void AveragePoolBackward<VECTOR_LEVEL>::Run(const AveragePool& pool, aclDataType type,
                                            const KernelArguments& arguments) {
  const auto times = [](const PooledAxis& axis) { return axis.pooled / axis.size + 1; };
  const int64_t elements_per_row = pool.columns.size + pool.columns.pooled * times(pool.rows) * times(pool.depth);
  const int64_t additions = MostWindowsOver(pool.depth) * MostWindowsOver(pool.rows) + MostWindowsOver(pool.columns);
  const auto make_rows = [&](auto tag) {
    using T = typename decltype(tag)::Type;
    VisitSumType<T>(additions, [&](auto sum_tag) {
      using Sum = typename decltype(sum_tag)::Type;
      using Sums = ColumnSums<T, Sum>;
      const Tiles tiles{pool.planes * pool.depth.size, pool.rows.size, pool.columns.size, Sums::TileColumns(pool)};
      const TileWork work{tiles.planes * tiles.rows * elements_per_row, sizeof(T), Sums::ScratchBytes(pool)};
      ForTiles(arguments.pool, tiles, work, [&] { return AveragePoolRows<T, Sum>(pool, arguments); });
    });
  };
  type == ACL_DOUBLE ? make_rows(TypeTag<double>{}) : VisitFloatType(type, make_rows);
}

}  // namespace acl_host
