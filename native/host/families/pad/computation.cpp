// Padding copied every cell to one or more places of its output; the gradient of a cell is the sum of gradOutput over
// those places. Negative padding crops: cropped cells get 0.
//
// A cell with one copy is moved, bit by bit. Sums are in the data type itself; the 16-bit types are summed in float32
// and rounded once. Depth comes before rows before columns, each in ascending order. Each row depends only on its
// position, so the result does not depend on the number of threads.
#include "families/pad/computation.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "families/pad/copies.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 32768;

// How a row of padded cells becomes a row of cells: the same for all rows.
struct Columns {
  explicit Columns(const Pad& pad) : own(OwnCells(pad.columns)) {
    const Range moved = MovedCells(pad.rule, pad.columns);
    for (int64_t cell = 0; cell < moved.begin; ++cell) Add(pad, cell);
    for (int64_t cell = moved.end; cell < pad.columns.size; ++cell) Add(pad, cell);
    moves_all = moved.size() == pad.columns.padded && moved.size() == pad.columns.size;
  }

  struct Pair {
    int64_t cell;
    int64_t first;
    int64_t second;
  };

  Range own;                    // cells that are not cropped: moved, unless they are in the lists below
  std::vector<Pair> pairs;      // cells with two copies
  std::vector<int64_t> others;  // cells with more copies, or with no copy
  bool moves_all;

 private:
  void Add(const Pad& pad, int64_t cell) {
    const Copies copies(pad.rule, pad.columns, cell);
    if (copies.count() == 1 && copies.first() == cell + pad.columns.before) return;
    if (copies.count() != 2) return others.push_back(cell);
    Pair pair{cell, copies.first(), 0};
    copies.ForEach([&](int64_t copy) { pair.second = copy; });
    pairs.push_back(pair);
  }
};

template <typename T>
class Rows {
 public:
  Rows(const Pad& pad, const Columns& columns, const Launch& launch)
      : pad_(pad),
        columns_(columns),
        grad_output_(launch.inputs[0]),
        out_(launch.outputs[0]),
        moved_rows_(MovedCells(pad.rule, pad.rows)) {}

  // Rows [begin, end), counted through all planes and their depth.
  void Make(int64_t begin, int64_t end) {
    const int64_t size = pad_.rows.size;
    for (int64_t row = begin; row < end;) {
      const int64_t slice = row / size;
      const Copies slices(pad_.rule, pad_.depth, slice % pad_.depth.size);
      const int64_t stop = std::min(end - slice * size, size);
      for (int64_t y = row - slice * size; y < stop;) y += MakeRows(slice, slices, y, stop);
      row = slice * size + stop;
    }
  }

 private:
  // Computes row y of a slice, or all rows of [y, stop) that can be moved at once; returns how many.
  int64_t MakeRows(int64_t slice, const Copies& slices, int64_t y, int64_t stop) {
    const Copies rows(pad_.rule, pad_.rows, y);
    const int64_t padded_slice = slice / pad_.depth.size * pad_.depth.padded;
    std::byte* const out = out_ + static_cast<size_t>((slice * pad_.rows.size + y) * pad_.columns.size) * sizeof(T);
    const int64_t count = slices.count() * rows.count();
    if (count > 1) {
      AddRows(padded_slice, slices, rows);
      FoldColumns<Wide<T>>(reinterpret_cast<const std::byte*>(sums_.data()), out);
    } else if (count == 0) {
      std::memset(out, 0, static_cast<size_t>(pad_.columns.size) * sizeof(T));
    } else if (columns_.moves_all) {
      const bool moved = moved_rows_.begin <= y && y < moved_rows_.end;
      const int64_t made = moved ? std::min(stop, moved_rows_.end) - y : 1;
      const std::byte* const grad = GradRow(padded_slice + slices.first(), rows.first());
      std::memcpy(out, grad, static_cast<size_t>(made * pad_.columns.size) * sizeof(T));
      return made;
    } else {
      FoldColumns<T>(GradRow(padded_slice + slices.first(), rows.first()), out);
    }
    return 1;
  }

  [[nodiscard]] const std::byte* GradRow(int64_t slice, int64_t row) const {
    return grad_output_ + static_cast<size_t>((slice * pad_.rows.padded + row) * pad_.columns.padded) * sizeof(T);
  }

  void AddRows(int64_t padded_slice, const Copies& slices, const Copies& rows) {
    sums_.assign(static_cast<size_t>(pad_.columns.padded), Wide<T>{});
    if constexpr (kConverts<T>) widened_.resize(sums_.size());
    slices.ForEach([&](int64_t slice) {
      rows.ForEach([&](int64_t row) {
        const std::byte* const grad = GradRow(padded_slice + slice, row);
        if constexpr (kConverts<T>) {
          WidenRow<T>(grad, widened_.data(), pad_.columns.padded);
          AddRow<Wide<T>>(reinterpret_cast<const std::byte*>(widened_.data()));
        } else {
          AddRow<T>(grad);
        }
      });
    });
  }

  template <typename Source>
  void AddRow(const std::byte* __restrict source) {
    const int64_t columns = pad_.columns.padded;
    Wide<T>* __restrict const sums = sums_.data();
    for (int64_t column = 0; column < columns; ++column) sums[column] += LoadWide<Source>(source, column);
  }

  // Computes a row of the gradient from padded cells of type Source: T, or the type of its sums.
  template <typename Source>
  void FoldColumns(const std::byte* __restrict source, std::byte* __restrict out) const {
    const Range& own = columns_.own;
    const std::byte* const first_own = source + static_cast<size_t>(own.begin + pad_.columns.before) * sizeof(Source);
    std::byte* const target = out + static_cast<size_t>(own.begin) * sizeof(T);
    if constexpr (std::is_same_v<Source, T>) {
      std::memcpy(target, first_own, static_cast<size_t>(own.size()) * sizeof(T));
    } else {
      RoundRow<T>(reinterpret_cast<const Source*>(first_own), target, own.size());
    }
    for (const Columns::Pair& pair : columns_.pairs) {
      RoundElement<T>(out, pair.cell,
                      WidenElement<Source>(source, pair.first) + WidenElement<Source>(source, pair.second));
    }
    for (const int64_t cell : columns_.others) FoldCell<Source>(source, out, cell);
  }

  template <typename Source>
  void FoldCell(const std::byte* source, std::byte* out, int64_t cell) const {
    const Copies copies(pad_.rule, pad_.columns, cell);
    if constexpr (std::is_same_v<Source, T>) {
      if (copies.count() == 1) return StoreElement(out, cell, LoadElement<T>(source, copies.first()));
    }
    Wide<T> sum{};
    copies.ForEach([&](int64_t copy) { sum += WidenElement<Source>(source, copy); });
    RoundElement<T>(out, cell, sum);
  }

  const Pad& pad_;
  const Columns& columns_;
  const std::byte* const grad_output_;
  std::byte* const out_;
  const Range moved_rows_;
  std::vector<Wide<T>> sums_;
  std::vector<Wide<T>> widened_;
};

}  // namespace

template <>
void PadBackward<VECTOR_LEVEL>::Run(const Pad& pad, aclDataType type, const Launch& launch) {
  const Columns columns(pad);
  const auto times = [](const PaddedAxis& axis) { return axis.padded / axis.size + 1; };
  const int64_t elements_per_row = (pad.columns.size + pad.columns.padded) * times(pad.rows) * times(pad.depth);
  VisitFloatOrComplexType(type, [&](auto tag) {
    launch.pool.ParallelFor(
        pad.planes * pad.depth.size * pad.rows.size, kElementsPerPiece / elements_per_row + 1,
        [&](int64_t begin, int64_t end) { Rows<typename decltype(tag)::Type>(pad, columns, launch).Make(begin, end); });
  });
}

}  // namespace acl_host
