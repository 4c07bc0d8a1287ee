// How kernels go through a reduction: by rows along the axis whose elements are side by side, in parts that threads
// share. In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "families/reductions/computation.h"
#include "plan/scratch.h"

namespace acl_host {
namespace {

// The results that are made side by side.
constexpr int64_t kSideBySide = 512;

// The steps through elements that are reduced. Adjacent rows lie together if they are one after the other.
struct Walk {
  std::vector<ReducedAxis> kept;     // without the axis that is along rows, if that is kept
  std::vector<ReducedAxis> reduced;  // the same
  ReducedAxis row{1, 1};
  bool reduces_row = true;  // or keeps it
};

// Rows are along the axis whose elements are side by side.
Walk WalkOf(const Reduction& reduction) {
  Walk walk{reduction.kept, reduction.reduced};
  const auto is_row = [](const ReducedAxis& axis) { return axis.stride == 1; };
  const auto take = [&](std::vector<ReducedAxis>& axes, std::vector<ReducedAxis>::iterator found) {
    walk.row = *found;
    axes.erase(found);
  };
  if (const auto found = std::find_if(walk.reduced.begin(), walk.reduced.end(), is_row); found != walk.reduced.end()) {
    take(walk.reduced, found);
  } else if (const auto kept = std::find_if(walk.kept.begin(), walk.kept.end(), is_row); kept != walk.kept.end()) {
    take(walk.kept, kept);
    walk.reduces_row = false;
  } else if (!walk.reduced.empty()) {
    take(walk.reduced, walk.reduced.begin());
  }
  return walk;
}

int64_t CountOf(const std::vector<ReducedAxis>& axes) {
  int64_t count = 1;
  for (const ReducedAxis& axis : axes) count *= axis.size;
  return count;
}

// Some of a row's elements, side by side unless the walk reduces a row with a longer stride.
struct Piece {
  int64_t first;
  int64_t count;
};

// The pieces of rows that are reduced: at most kRowPart elements each. The parts of a row come before the next row.
template <int64_t kRowPart>
class PiecesAlong {
 public:
  explicit PiecesAlong(const Walk& walk) : walk_(walk) {}

  [[nodiscard]] int64_t count() const { return CountOf(walk_.reduced) * per_row(); }
  [[nodiscard]] Piece At(int64_t piece) const {
    const int64_t first = piece % per_row() * kRowPart;
    const int64_t row = OffsetIn(walk_.reduced, piece / per_row(), &ReducedAxis::stride);
    return {row + first * walk_.row.stride, std::min(kRowPart, walk_.row.size - first)};
  }

 private:
  [[nodiscard]] int64_t per_row() const { return (walk_.row.size - 1) / kRowPart + 1; }

  const Walk& walk_;
};

// The pieces of rows that are kept: up to kSideBySide elements of each. Short rows that follow one another are taken as
// one row, whose parts are put together in the end.
class PiecesAcross {
 public:
  explicit PiecesAcross(const Walk& walk) : walk_(walk) {
    if (walk.reduced.empty() || walk.reduced[0].stride != walk.row.size) return;
    joined_ = std::clamp<int64_t>(kSideBySide / walk.row.size, 1, walk.reduced[0].size);
  }

  // The rows of a piece.
  [[nodiscard]] int64_t joined() const { return joined_; }
  [[nodiscard]] int64_t count() const {
    if (joined_ == 1) return CountOf(walk_.reduced);
    return CountOf(walk_.reduced) / walk_.reduced[0].size * per_axis();
  }
  // So many columns of it.
  [[nodiscard]] Piece At(int64_t piece, int64_t columns) const {
    if (joined_ == 1) return {OffsetIn(walk_.reduced, piece, &ReducedAxis::stride), columns};
    const int64_t first = piece % per_axis() * joined_;
    const int64_t place = piece / per_axis() * walk_.reduced[0].size + first;
    return {OffsetIn(walk_.reduced, place, &ReducedAxis::stride),
            std::min(joined_, walk_.reduced[0].size - first) * columns};
  }

 private:
  [[nodiscard]] int64_t per_axis() const { return (walk_.reduced[0].size - 1) / joined_ + 1; }

  const Walk& walk_;
  int64_t joined_ = 1;
};

// Makes side-by-side results, or one, for each kept place, in parts. If there are few, threads share their parts.
//   make(from, columns, begin, end, values)  makes values of the pieces [begin, end), whose elements begin behind
//   `from` add(values, more, columns)               puts those of the next part to values store(to, columns, values)
//   writes results from the place `to` on
template <typename Value, typename Make, typename Add, typename Store>
void ReduceInParts(const Reduction& reduction, const Walk& walk, const KernelArguments& arguments, int64_t pieces,
                   const Make& make, const Add& add, const Store& store) {
  const int64_t width = walk.reduces_row ? 1 : std::min(walk.row.size, kSideBySide);
  const int64_t blocks = walk.reduces_row ? 1 : (walk.row.size - 1) / width + 1;
  const int64_t tasks = CountOf(walk.kept) * blocks;
  const int64_t parts = std::min(reduction.parts(), pieces);
  const auto columns_of = [&](int64_t task) {
    return walk.reduces_row ? 1 : std::min(width, walk.row.size - task % blocks * width);
  };
  const auto make_part = [&](int64_t task, int64_t part, Value* made) {
    const int64_t from = OffsetIn(walk.kept, task / blocks, &ReducedAxis::stride) + task % blocks * width;
    make(from, columns_of(task), pieces * part / parts, pieces * (part + 1) / parts, made);
  };
  const auto store_task = [&](int64_t task, const Value* made) {
    const int64_t to = OffsetIn(walk.kept, task / blocks, &ReducedAxis::result_stride);
    store(to + task % blocks * width * walk.row.result_stride, columns_of(task), made);
  };
  if (parts == 1 || tasks * parts > Reduction::kMostParts) {
    arguments.pool.ParallelFor(tasks, Grain(reduction.terms * width), [&](int64_t begin, int64_t end) {
      std::array<Value, kSideBySide> made;
      std::array<Value, kSideBySide> more;
      for (int64_t task = begin; task < end; ++task) {
        make_part(task, 0, made.data());
        for (int64_t part = 1; part < parts; ++part) {
          make_part(task, part, more.data());
          add(made.data(), more.data(), columns_of(task));
        }
        store_task(task, made.data());
      }
    });
    return;
  }
  auto* const values = AlignedTo<Value>(arguments.scratch[0]);
  arguments.pool.ParallelFor(tasks * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) make_part(i / parts, i % parts, values + i * width);
  });
  for (int64_t task = 0; task < tasks; ++task) {
    Value* const first = values + task * parts * width;
    for (int64_t part = 1; part < parts; ++part) add(first, first + part * width, columns_of(task));
    store_task(task, first);
  }
}

}  // namespace
}  // namespace acl_host
