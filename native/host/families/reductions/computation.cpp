#include "families/reductions/computation.h"

#include <array>
#include <optional>

#include "families/reductions/walk.h"
#include "families/rows/floats.h"
#include "tensors/elements.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

// Rows whose terms are added one after the other in float32, where equal ones may all be rounded to the same side.
constexpr int64_t kMostRows = 64;
static_assert(kMostRows <= kMostFloatAdditions);

// Elements of a row that are not side by side, one in each lane.
template <typename T, typename Count>
FloatLanes GatherLanes(const std::byte* terms, int64_t first, int64_t stride, Count lanes) {
  FloatLanes gathered{};
  for (int64_t i = 0; i < int64_t{lanes}; ++i) gathered[i] = WidenElement<T>(terms, first + i * stride);
  return gathered;
}

// Adds up pieces of rows, and before the float32 sums are too long their total.
template <typename T>
class AlongRows {
 public:
  AlongRows(const Walk& walk, const std::byte* terms) : walk_(walk), pieces_(walk), terms_(terms) {}

  [[nodiscard]] int64_t pieces() const { return pieces_.count(); }

  [[nodiscard]] double Sum(int64_t from, int64_t begin, int64_t end) const {
    double total = 0;
    std::optional<SumsOfRuns<1>> sums;
    int64_t additions = 0;
    const auto flush = [&] {
      if (sums) total += double{sums->Total()[0]};
      sums.reset();
      additions = 0;
    };
    for (int64_t index = begin; index < end; ++index) {
      const Piece piece = pieces_.At(index);
      const int64_t longest = (piece.count - 1) / kSumsAlong + 1;
      if (additions + longest > kMostRows) flush();
      if (!sums) sums.emplace();
      additions += longest;
      AddPiece(*sums, from + piece.first, piece.count);
    }
    flush();
    return total;
  }

 private:
  void AddPiece(SumsOfRuns<1>& sums, int64_t first, int64_t count) const {
    if (walk_.row.stride == 1) {
      const std::byte* const row = terms_ + first * int64_t{sizeof(T)};
      sums.Add(count, [&](int64_t i, auto lanes) { return std::array{LoadLanes<T>(row, i, lanes)}; });
    } else {
      const int64_t stride = walk_.row.stride;
      sums.Add(count, [&](int64_t i, auto lanes) {
        return std::array{GatherLanes<T>(terms_, first + i * stride, stride, lanes)};
      });
    }
  }

  const Walk& walk_;
  const PiecesAlong<kRowPart> pieces_;
  const std::byte* const terms_;
};

// Adds rows to one another.
template <typename T>
class AcrossRows {
 public:
  AcrossRows(const Walk& walk, const std::byte* terms) : pieces_(walk), terms_(terms) {}

  [[nodiscard]] int64_t pieces() const { return pieces_.count(); }

  // So many columns, from `from` on.
  void Sum(int64_t from, int64_t columns, int64_t begin, int64_t end, double* totals) const {
    std::fill_n(totals, columns, 0.0);
    if (pieces_.joined() == 1) {
      AddPieces(from, columns, begin, end, totals, columns);
      return;
    }
    std::array<double, kSideBySide> joined{};
    AddPieces(from, columns, begin, end, joined.data(), pieces_.joined() * columns);
    for (int64_t i = 0; i < pieces_.joined() * columns; ++i) totals[i % columns] += joined[static_cast<size_t>(i)];
  }

 private:
  void AddPieces(int64_t from, int64_t columns, int64_t begin, int64_t end, double* totals, int64_t most) const {
    alignas(64) std::array<float, kSideBySide> sums;
    for (int64_t index = begin; index < end;) {
      const int64_t last = std::min(end, index + kMostRows);
      std::fill_n(sums.begin(), most, 0.0F);
      for (; index < last; ++index) {
        const Piece piece = pieces_.At(index, columns);
        AddRow<T>(terms_ + (from + piece.first) * int64_t{sizeof(T)}, piece.count, sums.data());
      }
      for (int64_t i = 0; i < most; ++i) totals[i] += double{sums[static_cast<size_t>(i)]};
    }
  }

  const PiecesAcross pieces_;
  const std::byte* const terms_;
};

template <typename T>
void Reduce(const Reduction& reduction, const KernelArguments& arguments) {
  const Walk walk = WalkOf(reduction);
  const AlongRows<T> along(walk, arguments.inputs[0]);
  const AcrossRows<T> across(walk, arguments.inputs[0]);
  ReduceInParts<double>(
      reduction, walk, arguments, walk.reduces_row ? along.pieces() : across.pieces(),
      [&](int64_t from, int64_t columns, int64_t begin, int64_t end, double* totals) {
        if (walk.reduces_row) {
          *totals = along.Sum(from, begin, end);
        } else {
          across.Sum(from, columns, begin, end, totals);
        }
      },
      [](double* totals, const double* more, int64_t columns) {
        for (int64_t i = 0; i < columns; ++i) totals[i] += more[i];
      },
      [&](int64_t to, int64_t columns, const double* totals) {
        VisitFloatType(reduction.to, [&](auto tag) {
          using To = typename decltype(tag)::Type;
          for (int64_t i = 0; i < columns; ++i) {
            RoundElement<To>(arguments.outputs[0], to + i * walk.row.result_stride,
                             static_cast<float>(totals[i] / reduction.divisor));
          }
        });
      });
}

}  // namespace

template <>
void ReduceSum<VECTOR_LEVEL>::Run(const Reduction& reduction, const KernelArguments& arguments) {
  VisitFloatType(reduction.from, [&](auto tag) { Reduce<typename decltype(tag)::Type>(reduction, arguments); });
}

}  // namespace acl_host
