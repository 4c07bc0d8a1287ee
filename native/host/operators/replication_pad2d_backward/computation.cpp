// Padding by replication copied every cell to one or more cells of its output; the gradient of a cell is the sum of
// gradOutput over those copies. Negative padding crops: what was cropped gets 0.
//
// An inner cell has one copy and is moved, bit by bit. Sums are made in the data type itself, in float32 for the 16-bit
// types, which are rounded once; rows before columns and both in ascending order. Each row depends on its position
// alone, so the result does not depend on the number of threads.
#include "computation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 32768;

// Cells [begin, end), or padded cells.
struct Range {
  int64_t begin;
  int64_t end;

  [[nodiscard]] int64_t size() const { return std::max<int64_t>(end - begin, 0); }
};

// The padded cells that are copies of a cell. Inner cells have one copy, or none if it was cropped; the two border
// cells also have all that was added beside them.
Range CopiesOf(const PaddedAxis& axis, int64_t cell) {
  const int64_t begin = cell == 0 ? 0 : cell + axis.before;
  const int64_t end = cell == axis.size - 1 ? axis.padded : cell + axis.before + 1;
  return {std::clamp<int64_t>(begin, 0, axis.padded), std::clamp<int64_t>(end, 0, axis.padded)};
}

// The inner cells that were not cropped.
Range MovedCells(const PaddedAxis& axis) {
  const int64_t begin = std::max<int64_t>(1, -axis.before);
  return {begin, std::max(begin, std::min(axis.size - 1, axis.padded - axis.before))};
}

template <typename T>
class Rows {
 public:
  Rows(const ReplicationPad& pad, const Launch& launch)
      : pad_(pad),
        grad_output_(launch.inputs[0]),
        out_(launch.outputs[0]),
        moved_(MovedCells(pad.columns)),
        first_(CopiesOf(pad.columns, 0)),
        last_(CopiesOf(pad.columns, pad.columns.size - 1)),
        whole_rows_(pad.columns.before == 0 && pad.columns.padded == pad.columns.size) {}

  // Rows [begin, end), counted through all planes.
  void Make(int64_t begin, int64_t end) {
    const int64_t size = pad_.rows.size;
    for (int64_t row = begin; row < end;) {
      const int64_t plane = row / size;
      const int64_t stop = std::min(end - plane * size, size);
      for (int64_t y = row - plane * size; y < stop;) y += MakeRows(plane, y, stop);
      row = plane * size + stop;
    }
  }

 private:
  // Makes row y of a plane, or all rows of [y, stop) that can be moved at once; returns how many.
  int64_t MakeRows(int64_t plane, int64_t y, int64_t stop) {
    const Range copies = CopiesOf(pad_.rows, y);
    const std::byte* const grad = GradRow(plane, copies.begin);
    std::byte* const out = out_ + static_cast<size_t>((plane * pad_.rows.size + y) * pad_.columns.size) * sizeof(T);
    if (copies.size() > 1) {
      AddRows(grad, copies.size());
      FoldColumns<Wide<T>>(reinterpret_cast<const std::byte*>(sums_.data()), out);
    } else if (copies.size() == 0) {
      std::memset(out, 0, static_cast<size_t>(pad_.columns.size) * sizeof(T));
    } else if (whole_rows_) {
      const int64_t count = std::max<int64_t>(1, std::min(stop, MovedCells(pad_.rows).end) - y);
      std::memcpy(out, grad, static_cast<size_t>(count * pad_.columns.size) * sizeof(T));
      return count;
    } else {
      FoldColumns<T>(grad, out);
    }
    return 1;
  }

  [[nodiscard]] const std::byte* GradRow(int64_t plane, int64_t row) const {
    return grad_output_ + static_cast<size_t>((plane * pad_.rows.padded + row) * pad_.columns.padded) * sizeof(T);
  }

  void AddRows(const std::byte* grad, int64_t count) {
    sums_.assign(static_cast<size_t>(pad_.columns.padded), Wide<T>{});
    if constexpr (kConverts<T>) widened_.resize(sums_.size());
    for (int64_t row = 0; row < count; ++row, grad += sums_.size() * sizeof(T)) {
      if constexpr (kConverts<T>) {
        WidenRow<T>(grad, widened_.data(), pad_.columns.padded);
        AddRow<Wide<T>>(reinterpret_cast<const std::byte*>(widened_.data()));
      } else {
        AddRow<T>(grad);
      }
    }
  }

  template <typename Source>
  void AddRow(const std::byte* __restrict source) {
    const int64_t columns = pad_.columns.padded;
    Wide<T>* __restrict const sums = sums_.data();
    for (int64_t column = 0; column < columns; ++column) sums[column] += LoadWide<Source>(source, column);
  }

  // Makes a row of the gradient from padded cells of type Source: T, or what sums of T are made in.
  template <typename Source>
  void FoldColumns(const std::byte* __restrict source, std::byte* __restrict out) const {
    const PaddedAxis& columns = pad_.columns;
    if (moved_.size() < columns.size - 2) std::memset(out, 0, static_cast<size_t>(columns.size) * sizeof(T));
    const std::byte* const first_moved = source + static_cast<size_t>(moved_.begin + columns.before) * sizeof(Source);
    std::byte* const target = out + static_cast<size_t>(moved_.begin) * sizeof(T);
    if constexpr (std::is_same_v<Source, T>) {
      std::memcpy(target, first_moved, static_cast<size_t>(moved_.size()) * sizeof(T));
    } else {
      RoundRow<T>(reinterpret_cast<const Source*>(first_moved), target, moved_.size());
    }
    RoundElement<T>(out, 0, Sum<Source>(source, first_));
    RoundElement<T>(out, columns.size - 1, Sum<Source>(source, last_));
  }

  template <typename Source>
  [[nodiscard]] static Wide<T> Sum(const std::byte* source, const Range& copies) {
    Wide<T> sum{};
    for (int64_t column = copies.begin; column < copies.end; ++column) sum += WidenElement<Source>(source, column);
    return sum;
  }

  const ReplicationPad& pad_;
  const std::byte* const grad_output_;
  std::byte* const out_;
  const Range moved_;
  const Range first_;
  const Range last_;
  const bool whole_rows_;  // the columns have no padding
  std::vector<Wide<T>> sums_;
  std::vector<Wide<T>> widened_;
};

}  // namespace

template <>
void ReplicationPad2dBackward<VECTOR_LEVEL>::Run(const ReplicationPad& pad, aclDataType type, const Launch& launch) {
  const int64_t elements_per_row = (pad.columns.size + pad.columns.padded) * (pad.rows.padded / pad.rows.size + 1);
  VisitFloatOrComplexType(type, [&](auto tag) {
    launch.pool.ParallelFor(
        pad.planes * pad.rows.size, kElementsPerPiece / elements_per_row + 1,
        [&](int64_t begin, int64_t end) { Rows<typename decltype(tag)::Type>(pad, launch).Make(begin, end); });
  });
}

}  // namespace acl_host
