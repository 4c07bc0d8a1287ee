// Padding copied every cell to one or more places of its output; the gradient of a cell is the sum of gradOutput over
// those places. Negative padding crops: cropped cells get 0.
//
// A cell with one copy is moved, bit by bit. Sums are in the data type or a longer one and rounded once. Depth comes
// before rows before columns, each in ascending order. Each row depends only on its
// position, so the result does not depend on the number of threads.
#include "families/pad/computation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "families/pad/columns.h"
#include "families/pad/copies.h"
#include "plan/scratch.h"
#include "plan/tiles.h"
#include "tensors/elements.h"
#include "tensors/rows.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

// A tile's columns, so that a few rows of sums stay in the first cache.
template <typename Sum>
constexpr int64_t kMostColumns = (16 << 10) / int64_t{sizeof(Sum)};

// At most so many copies of one cell, along an axis.
int64_t MostCopies(const PadRule rule, const PaddedAxis& axis) {
  if (rule == PadRule::kReflection) return 3;
  return 1 + std::max<int64_t>(axis.before, 0) + std::max<int64_t>(axis.padded - axis.size - axis.before, 0);
}

// Computes the tiles of one thread, with sums of the type Sum.
template <typename T, typename Sum>
class PadRows {
 public:
  PadRows(const Pad& pad, const KernelArguments& arguments)
      : pad_(pad),
        grad_output_(arguments.inputs[0]),
        out_(arguments.outputs[0]),
        moved_rows_(MovedCells(pad.rule, pad.rows)),
        columns_(pad),
        sums_(SumsOf(pad)) {}

  // The sums that a thread keeps: of a row, or of each copy of a tile.
  static int64_t SumsOf(const Pad& pad) {
    return pad.columns.padded <= kMostColumns<Sum> ? pad.columns.padded : 3 * kMostColumns<Sum>;
  }

  // The planes of the tile are the slices of all planes.
  void SetTile(const Tile& tile) {
    columns_.SetTile(tile.left, tile.right);
    slices_.emplace(pad_.rule, pad_.depth, tile.plane % pad_.depth.size);
  }

  // Computes all rows that can be moved at once, or one.
  int64_t MakeRows(const Tile& tile, int64_t y, int64_t first_cell) {
    const Copies rows(pad_.rule, pad_.rows, y);
    const int64_t padded_slice = tile.plane / pad_.depth.size * pad_.depth.padded;
    std::byte* const out = out_ + (first_cell - tile.left) * int64_t{sizeof(T)};
    const int64_t count = slices_->count() * rows.count();
    if (count != 1) {
      count == 0 ? Clear({tile.left, tile.right}, out) : FoldSums({padded_slice, *slices_, rows}, out);
      return 1;
    }
    const std::byte* const grad = GradRow(padded_slice + slices_->first(), rows.first());
    if (!columns_.moves_all() || tile.width() < pad_.columns.size) {
      FoldRow(grad, out);
      return 1;
    }
    const bool moved = moved_rows_.begin <= y && y < moved_rows_.end;
    const int64_t made = moved ? std::min(tile.bottom, moved_rows_.end) - y : 1;
    std::memcpy(out, grad, static_cast<size_t>(made * pad_.columns.size) * sizeof(T));
    return made;
  }

 private:
  // Rows of padded cells of one slice, of which the same columns are added up.
  struct Sources {
    int64_t slice;  // the first slice of the plane
    const Copies& slices;
    const Copies& rows;
  };

  [[nodiscard]] const std::byte* GradRow(int64_t slice, int64_t row) const {
    return grad_output_ + static_cast<size_t>((slice * pad_.rows.padded + row) * pad_.columns.padded) * sizeof(T);
  }

  // Computes the cells of a row from one row of padded cells.
  void FoldRow(const std::byte* grad, std::byte* out) const {
    const Range& own = columns_.own();
    std::memcpy(out + own.begin * int64_t{sizeof(T)}, grad + columns_.OwnCopy() * int64_t{sizeof(T)},
                static_cast<size_t>(own.size()) * sizeof(T));
    for (const Run& run : columns_) {
      if (run.copies > 3) {
        Sum sum{};
        for (int64_t copy = 0; copy < run.copies; ++copy) sum += Sum{WidenElement<T>(grad, run.first[0] + copy)};
        Round(out, run.begin, sum);
      } else if (run.copies == 1) {
        for (int64_t i = 0; i < run.size(); ++i) {
          StoreElement(out, run.begin + i, LoadElement<T>(grad, run.first[0] + i * run.step[0]));
        }
      } else {
        Fold(run, out,
             [&](size_t copy, int64_t i) { return Sum{WidenElement<T>(grad, run.first[copy] + i * run.step[copy])}; });
      }
    }
  }

  // Computes the cells of a row from several rows of padded cells. Short rows are added up as a whole.
  void FoldSums(const Sources& sources, std::byte* out) {
    const Sum* const whole =
        pad_.columns.padded <= kMostColumns<Sum> ? AddUp(sources, 0, pad_.columns.padded, 0) : nullptr;
    const auto sum = [&](int64_t first, int64_t count, size_t place) {
      return whole != nullptr ? whole + first : AddUp(sources, first, count, place);
    };
    const Range& own = columns_.own();
    RoundRow<T>(sum(columns_.OwnCopy(), own.size(), 0), out + own.begin * int64_t{sizeof(T)}, own.size());
    for (const Run& run : columns_) {
      if (run.copies > 3) {
        Sum all{};
        for (int64_t begin = 0; begin < run.copies; begin += kMostColumns<Sum>) {
          const int64_t count = std::min(run.copies - begin, kMostColumns<Sum>);
          const Sum* const sums = sum(run.first[0] + begin, count, 0);
          for (int64_t i = 0; i < count; ++i) all += sums[i];
        }
        Round(out, run.begin, all);
        continue;
      }
      std::array<const Sum*, 3> sums{};
      for (size_t copy = 0; copy < static_cast<size_t>(run.copies); ++copy) {
        const int64_t behind_first = std::min<int64_t>((run.size() - 1) * run.step[copy], 0);
        sums[copy] = sum(run.first[copy] + behind_first, run.size(), copy) - behind_first;
      }
      if (run.copies == 1) {
        for (int64_t i = 0; i < run.size(); ++i) Round(out, run.begin + i, sums[0][i * run.step[0]]);
      } else {
        Fold(run, out, [sums, step = run.step](size_t copy, int64_t i) { return sums[copy][i * step[copy]]; });
      }
    }
  }

  static void Round(std::byte* out, int64_t cell, Sum sum) { RoundElement<T>(out, cell, static_cast<Wide<T>>(sum)); }

  static void Clear(const Range& cells, std::byte* out) {
    std::memset(out + cells.begin * int64_t{sizeof(T)}, 0, static_cast<size_t>(cells.size()) * sizeof(T));
  }

  // Computes cells with no, two or three copies: value(copy, i) is that of the run's cell i.
  template <typename Value>
  static void Fold(const Run& run, std::byte* out, const Value value) {
    const int64_t size = run.size();
    std::byte* const target = out + run.begin * int64_t{sizeof(T)};
    if (run.copies == 0) {
      Clear({run.begin, run.end}, out);
    } else if (run.copies == 2) {
      for (int64_t i = 0; i < size; ++i) Round(target, i, value(0, i) + value(1, i));
    } else {
      for (int64_t i = 0; i < size; ++i) {
        Round(target, i, Sum{} + value(0, i) + value(1, i) + value(2, i));
      }
    }
  }

  // Adds up some columns of the rows; each place holds one result.
  const Sum* AddUp(const Sources& sources, int64_t first, int64_t count, size_t place) {
    Sum* const sums = sums_.data() + static_cast<int64_t>(place) * kMostColumns<Sum>;
    bool is_first = true;
    sources.slices.ForEach([&](int64_t slice) {
      sources.rows.ForEach([&](int64_t row) {
        const std::byte* const grad = GradRow(sources.slice + slice, row) + first * int64_t{sizeof(T)};
        is_first ? AddRow<T, true>(grad, count, sums) : AddRow<T>(grad, count, sums);
        is_first = false;
      });
    });
    return sums;
  }

  const Pad& pad_;
  const std::byte* const grad_output_;
  std::byte* const out_;
  const Range moved_rows_;
  Columns columns_;
  std::optional<Copies> slices_;  // of the tile
  Scratch<Sum> sums_;
};

}  // namespace

template <>
void PadBackward<VECTOR_LEVEL>::Run(const Pad& pad, aclDataType type, const KernelArguments& arguments) {
  const auto times = [](const PaddedAxis& axis) { return axis.padded / axis.size + 1; };
  const int64_t elements_per_row = (pad.columns.size + pad.columns.padded) * times(pad.rows) * times(pad.depth);
  const int64_t additions =
      MostCopies(pad.rule, pad.depth) * MostCopies(pad.rule, pad.rows) + MostCopies(pad.rule, pad.columns);
  VisitFloatOrComplexType(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    VisitSumType<T>(additions, [&](auto sum_tag) {
      using Sum = typename decltype(sum_tag)::Type;
      using Worker = PadRows<T, Sum>;
      const Tiles tiles{pad.planes * pad.depth.size, pad.rows.size, pad.columns.size, kMostColumns<Sum>};
      const TileWork work{tiles.planes * tiles.rows * elements_per_row, sizeof(T),
                          Worker::SumsOf(pad) * int64_t{sizeof(Sum)}};
      ForTiles(arguments.pool, tiles, work, [&] { return Worker(pad, arguments); });
    });
  });
}

}  // namespace acl_host
