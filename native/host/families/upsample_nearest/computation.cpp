// Every cell of the gradient is the sum of gradOutput over the copies that upsampling made of it: a rectangle, which
// may be empty.
//
// Rows are added up before columns, both in ascending order, and are rounded once. Each row depends only on
// its position, so the result does not depend on the number of threads.
#include "computation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "plan/scratch.h"
#include "plan/tiles.h"
#include "tensors/elements.h"
#include "tensors/rows.h"
#include "tensors/search.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

// Cells of a tile, and copies that are added up at a time: up to four copies of each cell have a loop of their own.
constexpr int64_t kMostColumns = 2048;
constexpr int64_t kMostCopies = 4 * kMostColumns;

// Finds where the copies of cells begin along an axis; they end at the begin of the next cell's copies.
class CopyBegins {
 public:
  explicit CopyBegins(const UpsampledAxis& axis)
      : axis_(axis), size_(static_cast<float>(axis.size)), upsampled_(static_cast<float>(axis.upsampled)) {
    scale_ = axis.scale > 0 ? axis.scale : upsampled_ / size_;
    step_ = axis.rule == NearestRule::kReciprocal && axis.scale > 0 ? 1.0F / axis.scale : size_ / upsampled_;
  }

  // Of a cell from 0 to the number of cells.
  [[nodiscard]] int64_t Begin(int64_t cell) const {
    if (axis_.rule == NearestRule::kScale) return Clamp(std::ceil(static_cast<float>(cell) * scale_));
    if (cell == axis_.size) return axis_.upsampled;
    // The first copy that is not of an earlier cell.
    return FirstNotBefore(Clamp(static_cast<float>(cell) / step_), axis_.upsampled,
                          [&](int64_t copy) { return IsBefore(copy, cell); });
  }

  // Of one cell, or one or two more: the last cell has what the others leave.
  [[nodiscard]] int64_t Most() const {
    const float step = axis_.rule == NearestRule::kScale ? 1.0F / scale_ : step_;
    return std::max(Clamp(1.0F / step) + 2, axis_.upsampled - Begin(axis_.size - 1));
  }

  static void Fill(const UpsampledAxis& axis, int64_t first, int64_t count, int64_t* begins) {
    const CopyBegins copies(axis);
    for (int64_t i = 0; i < count; ++i) begins[i] = copies.Begin(first + i);
  }

 private:
  [[nodiscard]] int64_t Clamp(float copy) const {
    return copy < upsampled_ ? static_cast<int64_t>(copy) : axis_.upsampled;
  }

  // Whether it is a copy of an earlier cell. Sources ascend with the copies, also after rounding, up to the last cell.
  [[nodiscard]] bool IsBefore(int64_t copy, int64_t cell) const {
    const float source = std::floor(static_cast<float>(copy) * step_);
    return source < static_cast<float>(axis_.size - 1) && static_cast<int64_t>(source) < cell;
  }

  const UpsampledAxis& axis_;
  const float size_;
  const float upsampled_;
  float scale_;
  float step_;
};

// Computes the tiles of one thread, with sums of the type Sum.
template <typename T, typename Sum>
class UpsampleRows {
 public:
  UpsampleRows(const Upsampling& upsampling, const KernelArguments& arguments)
      : upsampling_(upsampling),
        rows_(upsampling.rows, upsampling.rows.size + 1, CopyBegins::Fill),
        grad_output_(arguments.inputs[0]),
        out_(arguments.outputs[0]),
        begins_(static_cast<size_t>(std::min(kMostColumns, upsampling.columns.size) + 1)),
        sum_memory_(std::min(kMostCopies, upsampling.columns.upsampled)),
        folded_memory_(std::min(kMostColumns, upsampling.columns.size)),
        sums_(sum_memory_.data()),
        folded_(folded_memory_.data()) {}

  void SetTile(const Tile& tile) {
    if (tile.left == left_) return;
    left_ = tile.left;
    width_ = tile.width();
    CopyBegins::Fill(upsampling_.columns, tile.left, width_ + 1, begins_.data());
    factor_ = begins_[1] - begins_[0];
    for (size_t cell = 1; cell < static_cast<size_t>(width_); ++cell) {
      if (begins_[cell + 1] - begins_[cell] != factor_) factor_ = 0;
    }
  }

  int64_t MakeRows(const Tile& tile, int64_t y, int64_t first_cell) {
    std::byte* const out = out_ + static_cast<size_t>(first_cell) * sizeof(T);
    first_row_ = rows_.At(y);
    row_count_ = rows_.At(y + 1) - first_row_;
    first_row_ += tile.plane * upsampling_.rows.upsampled;
    if (row_count_ == 0) {
      std::memset(out, 0, static_cast<size_t>(width_) * sizeof(T));
    } else {
      RoundRow<T>(Fold(), out, width_);
    }
    return 1;
  }

 private:
  // Returns the sums of the copies of a row.
  const Sum* Fold() {
    const int64_t begin = begins_[0];
    switch (factor_) {
      case 1:
        AddRows(begin, width_);
        return sums_;
      case 2:
        return FoldBy<2>();
      case 3:
        return FoldBy<3>();
      case 4:
        return FoldBy<4>();
      default:
        return FoldUneven();
    }
  }

  template <int64_t factor>
  const Sum* FoldBy() {
    AddRows(begins_[0], width_ * factor);
    const Sum* __restrict const sums = sums_;
    Sum* __restrict const folded = folded_;
    const int64_t cells = width_;
    for (int64_t cell = 0; cell < cells; ++cell) {
      Sum sum = sums[cell * factor];
      for (int64_t copy = 1; copy < factor; ++copy) sum += sums[cell * factor + copy];
      folded[cell] = sum;
    }
    return folded;
  }

  const Sum* FoldUneven() {
    const auto width = static_cast<size_t>(width_);
    std::fill_n(folded_, width, Sum{});
    size_t cell = 0;
    for (int64_t begin = begins_[0]; begin < begins_[width]; begin += kMostCopies) {
      const int64_t end = std::min(begin + kMostCopies, begins_[width]);
      AddRows(begin, end - begin);
      for (; cell < width && begins_[cell] < end; ++cell) {
        Sum sum = folded_[cell];
        const int64_t last = std::min(begins_[cell + 1], end);
        for (int64_t copy = std::max(begins_[cell], begin); copy < last; ++copy) {
          sum += sums_[copy - begin];
        }
        folded_[cell] = sum;
        if (begins_[cell + 1] > end) break;
      }
    }
    return folded_;
  }

  // Adds up some columns of the row's copies.
  void AddRows(int64_t column, int64_t count) {
    const auto grad = [&](int64_t row) {
      const int64_t first = (first_row_ + row) * upsampling_.columns.upsampled + column;
      return grad_output_ + static_cast<size_t>(first) * sizeof(T);
    };
    int64_t row = 0;
    if (kConverts<T> || row_count_ == 1) {
      WidenRow<T>(grad(row++), sums_, count);
    } else {
      AddTwo(grad(0), grad(1), count);
      row = 2;
    }
    while (row < row_count_) AddRow<T>(grad(row++), count, sums_);
  }

  void AddTwo(const std::byte* __restrict first, const std::byte* __restrict second, int64_t count) {
    Sum* __restrict const sums = sums_;
    for (int64_t i = 0; i < count; ++i) sums[i] = Sum{LoadWide<T>(first, i)} + Sum{LoadWide<T>(second, i)};
  }

  const Upsampling& upsampling_;
  Stretch<UpsampledAxis, int64_t> rows_;
  const std::byte* const grad_output_;
  std::byte* const out_;

  // The tile, where the copies of its cells begin, and how many each cell has if it is the same number, otherwise 0.
  int64_t left_ = -1;
  int64_t width_ = 0;
  std::vector<int64_t> begins_;
  int64_t factor_ = 0;

  // The copies of a row.
  int64_t first_row_ = 0;
  int64_t row_count_ = 0;
  Scratch<Sum> sum_memory_;
  Scratch<Sum> folded_memory_;
  Sum* const sums_;
  Sum* const folded_;
};

}  // namespace

template <>
void UpsampleNearest2dBackward<VECTOR_LEVEL>::Run(const Upsampling& upsampling, aclDataType type,
                                                  const KernelArguments& arguments) {
  const UpsampledAxis& columns = upsampling.columns;
  const int64_t grad_rows_per_row = upsampling.rows.upsampled / upsampling.rows.size + 1;
  const int64_t elements_per_row = columns.size + columns.upsampled * grad_rows_per_row;
  const Tiles tiles{upsampling.planes, upsampling.rows.size, columns.size, kMostColumns};
  const int64_t sums = std::min(kMostCopies, columns.upsampled) + std::min(kMostColumns, columns.size);
  const int64_t additions = CopyBegins(upsampling.rows).Most() + CopyBegins(columns).Most();
  VisitFloatType(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    VisitSumType<T>(additions, [&](auto sum_tag) {
      using Sum = typename decltype(sum_tag)::Type;
      const int64_t scratch_bytes = sums * int64_t{sizeof(Sum)} + std::min(kMostColumns, columns.size) * 8;
      const TileWork work{tiles.planes * tiles.rows * elements_per_row, sizeof(T), scratch_bytes};
      ForTiles(arguments.pool, tiles, work, [&] { return UpsampleRows<T, Sum>(upsampling, arguments); });
    });
  });
}

}  // namespace acl_host
