// The cells that points take their samples from.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "points.h"

namespace acl_host {
namespace {

// Inner points that are computed at a time, in loops that the compiler vectorises.
constexpr int64_t kTogether = 16;
static_assert(kPoints % kTogether == 0);

// One cell of a point, counted from the first that matters.
template <typename F>
struct Tap {
  int64_t cell;
  int32_t point;
  F weight;
};

// The same with the derivatives of its weight along each axis.
template <typename F, int kAxes>
struct EdgeTap {
  int64_t cell;
  int32_t point;
  F by[kAxes];
};

// A position of a cell along each axis, or whether it is the one after a point.
template <int kAxes>
using Position = std::array<int64_t, kAxes>;

// A corner of a point's surroundings. They are counted with x fastest.
template <int kAxes>
[[nodiscard]] Position<kAxes> Corner(int corner) {
  Position<kAxes> after;
  for (int axis = 0; axis < kAxes; ++axis) after[axis] = corner >> axis & 1;
  return after;
}

// Of points along each axis, the cell before each, which may be outside, and the weights of that and of the next one.
template <typename F, int kAxes>
struct Corners {
  int32_t before[kAxes][kPoints];
  F weight[kAxes][2][kPoints];

  void Find(const Points<F, kAxes>& points, int32_t count) {
    for (int axis = 0; axis < kAxes; ++axis) {
      for (int32_t i = 0; i < count; ++i) {
        const F at = points.along[axis].at[i];
        const F cell = std::floor(at);
        before[axis][i] = static_cast<int32_t>(cell);
        weight[axis][0][i] = 1 - (at - cell);
        weight[axis][1][i] = at - cell;
      }
    }
  }

  [[nodiscard]] Position<kAxes> PositionOf(const Position<kAxes>& after, int32_t i) const {
    Position<kAxes> position;
    for (int axis = 0; axis < kAxes; ++axis) position[axis] = before[axis][i] + after[axis];
    return position;
  }
};

// Points between cells that all exist, and what each adds up over the channels.
template <typename F, int kAxes>
struct InnerPoints {
  int64_t count;
  int64_t cell[kPoints];  // the first of each
  int32_t point[kPoints];
  F weight[kAxes][2][kPoints];
  F by[kAxes][kPoints];

  void Add(int64_t first_cell, int32_t i, const Corners<F, kAxes>& corners) {
    cell[count] = first_cell;
    point[count] = i;
    for (int axis = 0; axis < kAxes; ++axis) {
      weight[axis][0][count] = corners.weight[axis][0][i];
      weight[axis][1][count] = corners.weight[axis][1][i];
      by[axis][count] = 0;
    }
    ++count;
  }

  // Repeats the last point up to a multiple of kTogether, so that loops over so many need no tail.
  void Fill() {
    for (int64_t k = count; k % kTogether != 0; ++k) {
      cell[k] = cell[count - 1];
      point[k] = point[count - 1];
      for (int axis = 0; axis < kAxes; ++axis) {
        weight[axis][0][k] = weight[axis][1][k] = by[axis][k] = 0;
      }
    }
  }
};

// A list of taps, into which only those of some cells of a channel come.
template <typename AnyTap, int kAxes>
class Taps {
 public:
  Taps(const GridSampling& sampling, int64_t first_cell, int64_t cells)
      : first_cell_(static_cast<uint64_t>(first_cell)), cells_(static_cast<uint64_t>(cells)) {
    for (int axis = 0; axis < kAxes; ++axis) sizes_[axis] = static_cast<uint64_t>(sampling.sizes[axis]);
  }

  void Clear() { end_ = taps_; }

  // Without a branch, because nobody can predict it. Numbers below 0 are large without a sign.
  void Add(const Position<kAxes>& position, AnyTap tap) {
    uint64_t cell = 0;
    int exists = 1;
    for (int axis = kAxes - 1; axis >= 0; --axis) {
      const auto at = static_cast<uint64_t>(position[axis]);
      cell = cell * sizes_[axis] + at;
      exists &= static_cast<int>(at < sizes_[axis]);
    }
    cell -= first_cell_;
    tap.cell = static_cast<int64_t>(cell);
    *end_ = tap;
    end_ += exists & static_cast<int>(cell < cells_);
  }

  [[nodiscard]] const AnyTap* begin() const { return taps_; }
  [[nodiscard]] const AnyTap* end() const { return end_; }

 private:
  uint64_t sizes_[kAxes];
  const uint64_t first_cell_;
  const uint64_t cells_;
  AnyTap taps_[(kPoints << kAxes) + 1];
  AnyTap* end_ = taps_;
};

template <typename F, int kAxes>
void AddNearest(const Points<F, kAxes>& points, int32_t count, Taps<Tap<F>, kAxes>& taps) {
  for (int32_t i = 0; i < count; ++i) {
    Position<kAxes> position;
    for (int axis = 0; axis < kAxes; ++axis) {
      position[axis] = static_cast<int32_t>(std::nearbyint(points.along[axis].at[i]));
    }
    taps.Add(position, {0, i, 1});
  }
}

// Corner by corner: points that follow one another often share cells, and a sum waits for the one before.
template <typename F, int kAxes>
void AddLinear(const Points<F, kAxes>& points, int32_t count, Taps<Tap<F>, kAxes>& taps) {
  Corners<F, kAxes> corners;
  corners.Find(points, count);
  for (int corner = 0; corner < 1 << kAxes; ++corner) {
    const Position<kAxes> after = Corner<kAxes>(corner);
    for (int32_t i = 0; i < count; ++i) {
      F weight = corners.weight[0][after[0]][i];
      for (int axis = 1; axis < kAxes; ++axis) weight *= corners.weight[axis][after[axis]][i];
      taps.Add(corners.PositionOf(after, i), {0, i, weight});
    }
  }
}

}  // namespace
}  // namespace acl_host
