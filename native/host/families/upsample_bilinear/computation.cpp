// An upsampled cell, a copy, lies between two cells along each axis, which have shares of it. So a cell has shares of
// the copies behind it, up to the next cell, and of those before it, from the previous cell on.
//
// Rows are added up before columns, both in ascending order, and are rounded once. Each row depends only on its
// position, so the result does not depend on the number of threads.
#include "computation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

#include "axis.h"
#include "plan/scratch.h"
#include "plan/tiles.h"
#include "tensors/elements.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

// Cells of a tile, and copies that are added up at a time: up to four copies of each cell have a loop of their own.
constexpr int64_t kMostColumns = 1024;
constexpr int64_t kMostCopies = 4 * kMostColumns + 8;

// Computes the tiles of one thread, with sums of the type Sum.
template <typename T, typename Sum>
class BilinearRows {
 public:
  BilinearRows(const LinearUpsampling& upsampling, const KernelArguments& arguments)
      : upsampling_(upsampling),
        row_sources_(upsampling.rows),
        column_sources_(upsampling.columns),
        rows_(upsampling.rows, upsampling.rows.size + 2, Sources::Fill),
        grad_output_(arguments.inputs[0]),
        out_(arguments.outputs[0]),
        begins_(static_cast<size_t>(MostCells(upsampling) + 2)),
        own_shares_(MostCopies(upsampling)),
        next_shares_(MostCopies(upsampling)),
        sums_(MostCopies(upsampling)),
        own_(MostCopies(upsampling)),
        of_next_(MostCopies(upsampling)),
        folded_(MostCells(upsampling) + 2) {}

  static int64_t MostCells(const LinearUpsampling& upsampling) {
    return std::min(kMostColumns, upsampling.columns.size);
  }
  static int64_t MostCopies(const LinearUpsampling& upsampling) {
    return std::min(kMostCopies, upsampling.columns.upsampled);
  }
  static int64_t ScratchBytes(const LinearUpsampling& upsampling) {
    constexpr int64_t kOfCopy = 2 * sizeof(float) + 3 * sizeof(Sum);
    return MostCopies(upsampling) * kOfCopy + MostCells(upsampling) * int64_t{sizeof(int64_t) + sizeof(Sum)};
  }

  void SetTile(const Tile& tile) {
    if (tile.left == left_) return;
    left_ = tile.left;
    width_ = tile.width();
    Sources::Fill(upsampling_.columns, tile.left, width_ + 2, begins_.data());
    shares_begin_ = -1;
    FindEven();
  }

  int64_t MakeRows(const Tile& tile, int64_t y, int64_t first_cell) {
    std::byte* const out = out_ + static_cast<size_t>(first_cell) * sizeof(T);
    first_row_ = rows_.At(y);
    middle_row_ = rows_.At(y + 1);
    end_row_ = rows_.At(y + 2);
    plane_ = grad_output_ + PlaneBytes() * tile.plane;
    if (first_row_ == end_row_) {
      std::memset(out, 0, static_cast<size_t>(width_) * sizeof(T));
      return 1;
    }
    const int64_t begin = begins_.front();
    const int64_t end = begins_[static_cast<size_t>(width_ + 1)];
    if (end - begin <= kMostCopies) {
      AddRows(begin, end - begin);
      FoldCells(0, even_begin_);
      VisitEven([&](auto copies) { FoldEven<copies>(); });
      FoldCells(even_end_, width_);
    } else {
      FoldInParts(begin, end);
    }
    RoundRow<T>(folded_.data(), out, width_);
    return 1;
  }

 private:
  [[nodiscard]] int64_t PlaneBytes() const {
    return upsampling_.rows.upsampled * upsampling_.columns.upsampled * int64_t{sizeof(T)};
  }
  [[nodiscard]] int64_t Begin(int64_t place) const { return begins_[static_cast<size_t>(place)]; }
  // How many copies lie between the cell before this one and it, and behind it.
  [[nodiscard]] int64_t Before(int64_t cell) const { return Begin(cell + 1) - Begin(cell); }
  [[nodiscard]] int64_t Behind(int64_t cell) const { return Begin(cell + 2) - Begin(cell + 1); }

  // Finds the cells that have as many copies before them as behind them, from the tile's middle on to both sides.
  void FindEven() {
    const int64_t middle = width_ / 2;
    even_copies_ = Before(middle);
    const auto is_even = [&](int64_t cell) { return Before(cell) == even_copies_ && Behind(cell) == even_copies_; };
    even_begin_ = middle;
    even_end_ = middle;
    if (even_copies_ < 1 || even_copies_ > 4) return;
    while (even_end_ < width_ && is_even(even_end_)) ++even_end_;
    while (even_begin_ > 0 && even_end_ > middle && is_even(even_begin_ - 1)) --even_begin_;
  }

  template <typename Visit>
  void VisitEven(const Visit& visit) const {
    switch (even_copies_) {
      case 1:
        return visit(std::integral_constant<int64_t, 1>{});
      case 2:
        return visit(std::integral_constant<int64_t, 2>{});
      case 3:
        return visit(std::integral_constant<int64_t, 3>{});
      case 4:
        return visit(std::integral_constant<int64_t, 4>{});
      default:
        return;
    }
  }

  template <int64_t kCopies>
  void FoldEven() const {
    if (even_begin_ == even_end_) return;
    const int64_t first = Begin(even_begin_) - begins_.front();
    const Sum* __restrict const of_next = of_next_.data() + first;
    const Sum* __restrict const own = own_.data() + first + kCopies;
    Sum* __restrict const folded = folded_.data() + even_begin_;
    const int64_t cells = even_end_ - even_begin_;
    for (int64_t cell = 0; cell < cells; ++cell) {
      Sum sum = of_next[cell * kCopies];
      for (int64_t copy = 1; copy < kCopies; ++copy) sum += of_next[cell * kCopies + copy];
      for (int64_t copy = 0; copy < kCopies; ++copy) sum += own[cell * kCopies + copy];
      folded[cell] = sum;
    }
  }

  void FoldCells(int64_t first, int64_t end) const {
    const int64_t begin = begins_.front();
    for (int64_t cell = first; cell < end; ++cell) {
      Sum sum{};
      for (int64_t copy = Begin(cell); copy < Begin(cell + 1); ++copy) sum += of_next_.data()[copy - begin];
      for (int64_t copy = Begin(cell + 1); copy < Begin(cell + 2); ++copy) sum += own_.data()[copy - begin];
      folded_.data()[cell] = sum;
    }
  }

  void FoldInParts(int64_t begin, int64_t end) {
    std::fill_n(folded_.data(), width_, Sum{});
    for (int64_t first = begin; first < end; first += kMostCopies) {
      const int64_t last = std::min(first + kMostCopies, end);
      AddRows(first, last - first);
      const auto sum_of = [&](const Scratch<Sum>& line, int64_t place) {
        Sum sum{};
        const int64_t stop = std::min(Begin(place + 1), last);
        for (int64_t copy = std::max(Begin(place), first); copy < stop; ++copy) sum += line.data()[copy - first];
        return sum;
      };
      const auto past = std::upper_bound(begins_.begin(), begins_.begin() + width_ + 1, first) - begins_.begin();
      for (int64_t place = past - 1; place <= width_ && Begin(place) < last; ++place) {
        if (place > 0) folded_.data()[place - 1] += sum_of(own_, place);
        if (place < width_) folded_.data()[place] += sum_of(of_next_, place);
      }
    }
  }

  struct Term {
    const std::byte* row;
    float share;
  };

  // Adds up some columns of the row's copies, and multiplies the sums by the shares of both cells.
  void AddRows(int64_t column, int64_t count) {
    SetShares(column, count);
    bool adds = false;
    for (int64_t row = first_row_; row < end_row_; row += 4) {
      std::array<Term, 4> terms{};
      const int64_t several = std::min(end_row_ - row, int64_t{4});
      for (int64_t i = 0; i < several; ++i) {
        const LinearSource source = row_sources_.Of(row + i);
        const int64_t first = ((row + i) * upsampling_.columns.upsampled + column) * int64_t{sizeof(T)};
        terms[static_cast<size_t>(i)] = {plane_ + first, row + i < middle_row_ ? source.of_next : source.own};
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
      adds = true;
    }
    Multiply(own_shares_, count, own_);
    Multiply(next_shares_, count, of_next_);
  }

  template <size_t kTerms>
  void AddTerms(std::array<Term, 4> terms, int64_t count, bool adds) const {
    if constexpr (std::is_same_v<Sum, float>) {
      std::byte* const sums = sums_.bytes();
      ForLanes(count, [&](int64_t i, auto lanes) {
        FloatLanes sum = terms[0].share * LoadLanes<T>(terms[0].row, i, lanes);
        for (size_t term = 1; term < kTerms; ++term) sum += terms[term].share * LoadLanes<T>(terms[term].row, i, lanes);
        StoreLanes<float>(adds ? LoadLanes<float>(sums, i, lanes) + sum : sum, sums, i, lanes);
      });
    } else {
      for (int64_t i = 0; i < count; ++i) {
        Sum sum = adds ? sums_.data()[i] : Sum{};
        for (size_t term = 0; term < kTerms; ++term) {
          sum += Sum{terms[term].share} * Sum{WidenElement<T>(terms[term].row, i)};
        }
        sums_.data()[i] = sum;
      }
    }
  }

  void Multiply(const Scratch<float>& shares, int64_t count, const Scratch<Sum>& to) const {
    const float* __restrict const factors = shares.data();
    const Sum* __restrict const sums = sums_.data();
    Sum* __restrict const products = to.data();
    for (int64_t i = 0; i < count; ++i) products[i] = sums[i] * Sum{factors[i]};
  }

  void SetShares(int64_t column, int64_t count) {
    if (column == shares_begin_) return;
    shares_begin_ = column;
    for (int64_t i = 0; i < count; ++i) {
      const LinearSource source = column_sources_.Of(column + i);
      own_shares_.data()[i] = source.own;
      next_shares_.data()[i] = source.of_next;
    }
  }

  const LinearUpsampling& upsampling_;
  const Sources row_sources_;
  const Sources column_sources_;
  Stretch<LinearAxis, int64_t> rows_;
  const std::byte* const grad_output_;
  std::byte* const out_;

  // The tile; where the copies of the cell before it begin, and of its own cells; those with even copies.
  int64_t left_ = -1;
  int64_t width_ = 0;
  std::vector<int64_t> begins_;
  int64_t even_copies_ = 0;
  int64_t even_begin_ = 0;
  int64_t even_end_ = 0;

  // The copies of a row: those before it, and from the middle on those behind it.
  const std::byte* plane_ = nullptr;
  int64_t first_row_ = 0;
  int64_t middle_row_ = 0;
  int64_t end_row_ = 0;

  // The shares of the columns from this one on; the sums of their copies, and these times the shares.
  int64_t shares_begin_ = -1;
  Scratch<float> own_shares_;
  Scratch<float> next_shares_;
  Scratch<Sum> sums_;
  Scratch<Sum> own_;
  Scratch<Sum> of_next_;
  Scratch<Sum> folded_;
};

}  // namespace

template <>
void UpsampleBilinear2dBackward<VECTOR_LEVEL>::Run(const LinearUpsampling& upsampling, aclDataType type,
                                                   const KernelArguments& arguments) {
  const LinearAxis& columns = upsampling.columns;
  const Tiles tiles{upsampling.planes, upsampling.rows.size, columns.size, kMostColumns};
  VisitFloatType(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (upsampling.is_copy()) {
      constexpr int64_t kBytes = sizeof(T);
      const int64_t count = upsampling.planes * upsampling.rows.size * columns.size;
      return arguments.pool.ParallelFor(count, Grain(1), [&](int64_t begin, int64_t end) {
        std::memcpy(arguments.outputs[0] + begin * kBytes, arguments.inputs[0] + begin * kBytes,
                    static_cast<size_t>((end - begin) * kBytes));
      });
    }
    const int64_t elements_per_row =
        columns.size + columns.upsampled * 2 * (upsampling.rows.upsampled / upsampling.rows.size + 1);
    const int64_t additions = Sources(upsampling.rows).Most() + Sources(columns).Most();
    VisitSumType<T>(additions, [&](auto sum_tag) {
      using Rows = BilinearRows<T, typename decltype(sum_tag)::Type>;
      const TileWork work{tiles.planes * tiles.rows * elements_per_row, sizeof(T), Rows::ScratchBytes(upsampling)};
      ForTiles(arguments.pool, tiles, work, [&] { return Rows(upsampling, arguments); });
    });
  });
}

}  // namespace acl_host
