// Every cell of the gradient is the sum of gradOutput over the copies that upsampling made of it: a rectangle, which
// may be empty.
//
// Sums are in float32, rows before columns and both in ascending order, and are rounded once. Each row depends only on
// its position, so the result does not depend on the number of threads.
#include "computation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 32768;

// The begin of each cell's copies along an axis; they end at the begin of the next cell's copies.
class Copies {
 public:
  explicit Copies(const UpsampledAxis& axis) : begins_(static_cast<size_t>(axis.size) + 1) {
    axis.rule == NearestRule::kScale ? BeginByScale(axis) : BeginBySource(axis);
    factor_ = axis.upsampled % axis.size == 0 ? axis.upsampled / axis.size : 0;
    for (int64_t cell = 0; cell <= axis.size; ++cell) {
      if (begin(cell) != cell * factor_) factor_ = 0;
    }
  }

  [[nodiscard]] int64_t begin(int64_t cell) const { return begins_[static_cast<size_t>(cell)]; }
  [[nodiscard]] int64_t end(int64_t cell) const { return begins_[static_cast<size_t>(cell) + 1]; }
  // The number of copies of each cell if it is the same for all, otherwise 0.
  [[nodiscard]] int64_t factor() const { return factor_; }

 private:
  void BeginByScale(const UpsampledAxis& axis) {
    const float scale =
        axis.scale > 0 ? axis.scale : static_cast<float>(axis.upsampled) / static_cast<float>(axis.size);
    for (size_t cell = 0; cell < begins_.size(); ++cell) {
      const float begin = std::ceil(static_cast<float>(cell) * scale);
      begins_[cell] = begin < static_cast<float>(axis.upsampled) ? static_cast<int64_t>(begin) : axis.upsampled;
    }
  }

  void BeginBySource(const UpsampledAxis& axis) {
    const bool has_scale = axis.rule == NearestRule::kReciprocal && axis.scale > 0;
    const float step =
        has_scale ? 1.0F / axis.scale : static_cast<float>(axis.size) / static_cast<float>(axis.upsampled);
    int64_t next = 0;
    for (int64_t copy = 0; copy < axis.upsampled; ++copy) {
      const float source = std::floor(static_cast<float>(copy) * step);
      const int64_t last = axis.size - 1;
      const int64_t cell = source < static_cast<float>(last) ? static_cast<int64_t>(source) : last;
      while (next <= cell) begins_[static_cast<size_t>(next++)] = copy;
    }
    while (next <= axis.size) begins_[static_cast<size_t>(next++)] = axis.upsampled;
  }

  std::vector<int64_t> begins_;
  int64_t factor_;
};

// Computes the rows of one thread.
template <typename T>
class Rows {
 public:
  Rows(const Upsampling& upsampling, const Copies& rows, const Copies& columns, const Launch& launch)
      : upsampling_(upsampling),
        rows_(rows),
        columns_(columns),
        grad_output_(launch.inputs[0]),
        out_(launch.outputs[0]),
        sums_(static_cast<size_t>(upsampling.columns.upsampled)),
        widened_(sums_.size()),
        folded_(static_cast<size_t>(upsampling.columns.size)) {}

  // Rows [begin, end), counted through all planes.
  void Make(int64_t begin, int64_t end) {
    const auto row_bytes = folded_.size() * sizeof(T);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t plane = row / upsampling_.rows.size;
      const int64_t y = row % upsampling_.rows.size;
      std::byte* const out = out_ + static_cast<size_t>(row) * row_bytes;
      if (rows_.begin(y) == rows_.end(y)) {
        std::memset(out, 0, row_bytes);
      } else {
        AddRows(plane * upsampling_.rows.upsampled + rows_.begin(y), rows_.end(y) - rows_.begin(y));
        FoldColumns();
        RoundRow<T>(folded_.data(), out, upsampling_.columns.size);
      }
    }
  }

 private:
  void AddRows(int64_t first, int64_t count) {
    const int64_t columns = upsampling_.columns.upsampled;
    for (int64_t row = 0; row < count; ++row) {
      const std::byte* const grad = grad_output_ + static_cast<size_t>((first + row) * columns) * sizeof(T);
      if constexpr (kConverts<T>) {
        WidenRow<T>(grad, widened_.data(), columns);
        AddRow<float>(reinterpret_cast<const std::byte*>(widened_.data()), row == 0);
      } else {
        AddRow<T>(grad, row == 0);
      }
    }
  }

  template <typename Source>
  void AddRow(const std::byte* __restrict grad, bool first) {
    const int64_t columns = upsampling_.columns.upsampled;
    float* __restrict const sums = sums_.data();
    if (first) {
      for (int64_t column = 0; column < columns; ++column) sums[column] = LoadWide<Source>(grad, column);
    } else {
      for (int64_t column = 0; column < columns; ++column) sums[column] += LoadWide<Source>(grad, column);
    }
  }

  void FoldColumns() {
    switch (columns_.factor()) {
      case 1:
        return folded_.swap(sums_);
      case 2:
        return FoldBy<2>();
      case 3:
        return FoldBy<3>();
      case 4:
        return FoldBy<4>();
      default:
        for (int64_t cell = 0; cell < upsampling_.columns.size; ++cell) {
          float sum = 0;
          for (int64_t copy = columns_.begin(cell); copy < columns_.end(cell); ++copy) {
            sum += sums_[static_cast<size_t>(copy)];
          }
          folded_[static_cast<size_t>(cell)] = sum;
        }
    }
  }

  template <int64_t factor>
  void FoldBy() {
    const float* __restrict const sums = sums_.data();
    float* __restrict const folded = folded_.data();
    const int64_t cells = upsampling_.columns.size;
    for (int64_t cell = 0; cell < cells; ++cell) {
      float sum = sums[cell * factor];
      for (int64_t copy = 1; copy < factor; ++copy) sum += sums[cell * factor + copy];
      folded[cell] = sum;
    }
  }

  const Upsampling& upsampling_;
  const Copies& rows_;
  const Copies& columns_;
  const std::byte* const grad_output_;
  std::byte* const out_;
  std::vector<float> sums_;
  std::vector<float> widened_;
  std::vector<float> folded_;
};

}  // namespace

template <>
void UpsampleNearest2dBackward<VECTOR_LEVEL>::Run(const Upsampling& upsampling, aclDataType type,
                                                  const Launch& launch) {
  const Copies rows(upsampling.rows);
  const Copies columns(upsampling.columns);
  const int64_t grad_rows_per_row = upsampling.rows.upsampled / upsampling.rows.size + 1;
  const int64_t elements_per_row = upsampling.columns.size + upsampling.columns.upsampled * grad_rows_per_row;
  VisitFloatType(type, [&](auto tag) {
    launch.pool.ParallelFor(upsampling.planes * upsampling.rows.size, kElementsPerPiece / elements_per_row + 1,
                            [&](int64_t begin, int64_t end) {
                              Rows<typename decltype(tag)::Type>(upsampling, rows, columns, launch).Make(begin, end);
                            });
  });
}

}  // namespace acl_host
