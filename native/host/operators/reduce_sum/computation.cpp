#include "operators/reduce_sum/computation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "families/rows/floats.h"
#include "plan/scratch.h"
#include "tensors/elements.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

// The sums that are made side by side.
constexpr int64_t kSideBySide = 512;
// Rows whose terms are added one after the other in float32, where equal ones may all be rounded to the same side.
constexpr int64_t kMostRows = 64;
static_assert(kMostRows <= kMostFloatAdditions);

// The steps through elements that are added up. Adjacent rows lie together if they are one after the other.
struct Walk {
  std::vector<SummedAxis> kept;   // without the axis that is along rows, if that is kept
  std::vector<SummedAxis> added;  // the same
  SummedAxis row{1, 1};
  bool adds_row = true;  // or keeps it
};

// Rows are along the axis whose elements are side by side.
Walk WalkOf(const Summation& summation) {
  Walk walk{summation.kept, summation.added};
  const auto is_row = [](const SummedAxis& axis) { return axis.stride == 1; };
  const auto take = [&](std::vector<SummedAxis>& axes, std::vector<SummedAxis>::iterator found) {
    walk.row = *found;
    axes.erase(found);
  };
  if (const auto added = std::find_if(walk.added.begin(), walk.added.end(), is_row); added != walk.added.end()) {
    take(walk.added, added);
  } else if (const auto kept = std::find_if(walk.kept.begin(), walk.kept.end(), is_row); kept != walk.kept.end()) {
    take(walk.kept, kept);
    walk.adds_row = false;
  } else if (!walk.added.empty()) {
    take(walk.added, walk.added.begin());
  }
  return walk;
}

int64_t CountOf(const std::vector<SummedAxis>& axes) {
  int64_t count = 1;
  for (const SummedAxis& axis : axes) count *= axis.size;
  return count;
}

// Visits the offsets of places [begin, end), counted through the axes.
template <typename Visit>
void ForOffsets(const std::vector<SummedAxis>& axes, int64_t begin, int64_t end, const Visit& visit) {
  if (axes.empty()) {
    if (begin < end) visit(0);
    return;
  }
  const SummedAxis& first = axes.front();
  for (int64_t place = begin; place < end;) {
    const int64_t offset = OffsetIn(axes, place, &SummedAxis::stride);
    const int64_t count = std::min(end - place, first.size - place % first.size);
    for (int64_t i = 0; i < count; ++i) visit(offset + i * first.stride);
    place += count;
  }
}

// Elements of a row that are not side by side, one in each lane.
template <typename T, typename Count>
FloatLanes GatherLanes(const std::byte* terms, int64_t first, int64_t stride, Count lanes) {
  FloatLanes gathered{};
  for (int64_t i = 0; i < int64_t{lanes}; ++i) gathered[i] = WidenElement<T>(terms, first + i * stride);
  return gathered;
}

// Adds up pieces of rows: of each at most kRowPart elements, and before the float32 sums are too long their total.
template <typename T>
class AlongRows {
 public:
  AlongRows(const Walk& walk, const std::byte* terms) : walk_(walk), terms_(terms) {}

  // Pieces are the parts of a row, and then those of the next one.
  [[nodiscard]] int64_t pieces() const { return CountOf(walk_.added) * per_row(); }

  [[nodiscard]] double Sum(int64_t from, int64_t begin, int64_t end) const {
    double total = 0;
    std::optional<SumsOfRuns<1>> sums;
    int64_t additions = 0;
    const auto flush = [&] {
      if (sums) total += double{sums->Total()[0]};
      sums.reset();
      additions = 0;
    };
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = piece % per_row() * kRowPart;
      const int64_t count = std::min(kRowPart, walk_.row.size - first);
      const int64_t longest = (count - 1) / kSumsAlong + 1;
      if (additions + longest > kMostRows) flush();
      if (!sums) sums.emplace();
      additions += longest;
      AddPiece(*sums, from + OffsetIn(walk_.added, piece / per_row(), &SummedAxis::stride) + first * walk_.row.stride,
               count);
    }
    flush();
    return total;
  }

 private:
  [[nodiscard]] int64_t per_row() const { return (walk_.row.size - 1) / kRowPart + 1; }

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
  const std::byte* const terms_;
};

// Adds rows to one another, up to kSideBySide elements of each. Short rows that follow one another are added as one
// row, whose parts are added in the end.
template <typename T>
class AcrossRows {
 public:
  AcrossRows(const Walk& walk, const std::byte* terms) : walk_(walk), terms_(terms) {
    if (walk.added.empty() || walk.added[0].stride != walk.row.size) return;
    joined_ = std::clamp<int64_t>(kSideBySide / walk.row.size, 1, walk.added[0].size);
  }

  // Rows, or joined ones.
  [[nodiscard]] int64_t pieces() const {
    if (joined_ == 1) return CountOf(walk_.added);
    return CountOf(walk_.added) / walk_.added[0].size * per_axis();
  }

  // The elements of rows from `from` on.
  void Sum(int64_t from, int64_t count, int64_t begin, int64_t end, double* totals) const {
    alignas(64) std::array<float, kSideBySide> sums;
    std::array<double, kSideBySide> joined{};
    std::fill_n(totals, count, 0.0);
    if (joined_ == 1) {
      AddPieces(begin, end, sums, totals, count,
                [&](int64_t piece) { return Row{from + OffsetIn(walk_.added, piece, &SummedAxis::stride), count}; });
      return;
    }
    AddPieces(begin, end, sums, joined.data(), joined_ * count, [&](int64_t piece) {
      const int64_t first = piece % per_axis() * joined_;
      const int64_t place = piece / per_axis() * walk_.added[0].size + first;
      return Row{from + OffsetIn(walk_.added, place, &SummedAxis::stride),
                 std::min(joined_, walk_.added[0].size - first) * count};
    });
    for (int64_t i = 0; i < joined_ * count; ++i) totals[i % count] += joined[static_cast<size_t>(i)];
  }

 private:
  struct Row {
    int64_t first;
    int64_t count;
  };

  [[nodiscard]] int64_t per_axis() const { return (walk_.added[0].size - 1) / joined_ + 1; }

  template <typename RowOf>
  void AddPieces(int64_t begin, int64_t end, std::array<float, kSideBySide>& sums, double* totals, int64_t most,
                 const RowOf& row_of) const {
    for (int64_t piece = begin; piece < end;) {
      const int64_t last = std::min(end, piece + kMostRows);
      std::fill_n(sums.begin(), most, 0.0F);
      for (; piece < last; ++piece) {
        const Row row = row_of(piece);
        AddRow<T>(terms_ + row.first * int64_t{sizeof(T)}, row.count, sums.data());
      }
      for (int64_t i = 0; i < most; ++i) totals[i] += double{sums[static_cast<size_t>(i)]};
    }
  }

  const Walk& walk_;
  const std::byte* const terms_;
  int64_t joined_ = 1;
};

// Sums of side-by-side elements, or one sum, for each kept place. If there are few, threads share their parts.
template <typename T>
void Reduce(const Summation& summation, const Walk& walk, const KernelArguments& arguments) {
  const std::byte* const terms = arguments.inputs[0];
  const AlongRows<T> along(walk, terms);
  const AcrossRows<T> across(walk, terms);
  const int64_t width = walk.adds_row ? 1 : std::min(walk.row.size, kSideBySide);
  const int64_t blocks = walk.adds_row ? 1 : (walk.row.size - 1) / width + 1;
  const int64_t tasks = CountOf(walk.kept) * blocks;
  const int64_t pieces = walk.adds_row ? along.pieces() : across.pieces();
  const int64_t parts = std::min(summation.parts(), pieces);
  auto* const totals = AlignedTo<double>(arguments.scratch[0]);

  const auto columns_of = [&](int64_t task) {
    return walk.adds_row ? 1 : std::min(width, walk.row.size - task % blocks * width);
  };
  const auto make = [&](int64_t task, int64_t part, double* made) {
    const int64_t from = OffsetIn(walk.kept, task / blocks, &SummedAxis::stride);
    const int64_t begin = pieces * part / parts;
    const int64_t end = pieces * (part + 1) / parts;
    if (walk.adds_row) {
      *made = along.Sum(from, begin, end);
    } else {
      across.Sum(from + task % blocks * width, columns_of(task), begin, end, made);
    }
  };
  const auto store = [&](int64_t task, const double* made) {
    const int64_t to = OffsetIn(walk.kept, task / blocks, &SummedAxis::sum_stride);
    const int64_t count = columns_of(task);
    const int64_t first = walk.adds_row ? to : to + task % blocks * width * walk.row.sum_stride;
    VisitFloatType(summation.to, [&](auto tag) {
      using To = typename decltype(tag)::Type;
      for (int64_t i = 0; i < count; ++i) {
        RoundElement<To>(arguments.outputs[0], first + i * walk.row.sum_stride, static_cast<float>(made[i]));
      }
    });
  };
  const auto add = [&](double* sums, const double* more, int64_t count) {
    for (int64_t i = 0; i < count; ++i) sums[i] += more[i];
  };
  if (parts == 1 || tasks * parts > Summation::kMostParts) {
    arguments.pool.ParallelFor(tasks, Grain(summation.terms * width), [&](int64_t begin, int64_t end) {
      std::array<double, kSideBySide> made;
      std::array<double, kSideBySide> more;
      for (int64_t task = begin; task < end; ++task) {
        make(task, 0, made.data());
        for (int64_t part = 1; part < parts; ++part) {
          make(task, part, more.data());
          add(made.data(), more.data(), columns_of(task));
        }
        store(task, made.data());
      }
    });
    return;
  }
  arguments.pool.ParallelFor(tasks * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) make(i / parts, i % parts, totals + i * width);
  });
  for (int64_t task = 0; task < tasks; ++task) {
    double* const first = totals + task * parts * width;
    for (int64_t part = 1; part < parts; ++part) add(first, first + part * width, columns_of(task));
    store(task, first);
  }
}

}  // namespace

template <>
void ReduceSum<VECTOR_LEVEL>::Run(const Summation& summation, const KernelArguments& arguments) {
  const Walk walk = WalkOf(summation);
  VisitFloatType(summation.from, [&](auto tag) { Reduce<typename decltype(tag)::Type>(summation, walk, arguments); });
}

}  // namespace acl_host
