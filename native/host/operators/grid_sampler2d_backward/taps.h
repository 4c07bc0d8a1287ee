// The cells that points take their samples from.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cmath>
#include <cstdint>

#include "points.h"

namespace acl_host {
namespace {

// One cell of a point, counted from the first that matters.
template <typename F>
struct Tap {
  int64_t cell;
  int32_t point;
  F weight;
};

// The same with the derivatives of its weight.
template <typename F>
struct EdgeTap {
  int64_t cell;
  int32_t point;
  F by_x;
  F by_y;
};

// A point between four cells that exist: the first of them.
struct Inner {
  int64_t cell;
  int32_t point;
};

// Of points, the cell before each, which may be outside, and the distances from the cells on all four sides.
template <typename F>
struct Corners {
  int32_t column[kPoints];
  int32_t row[kPoints];
  F left[kPoints];
  F right[kPoints];
  F top[kPoints];
  F bottom[kPoints];

  void Find(const Points<F>& points, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      const F x = points.x.at[i];
      const F y = points.y.at[i];
      const F before = std::floor(x);
      const F above = std::floor(y);
      column[i] = static_cast<int32_t>(before);
      row[i] = static_cast<int32_t>(above);
      left[i] = before + 1 - x;
      right[i] = x - before;
      top[i] = above + 1 - y;
      bottom[i] = y - above;
    }
  }
};

// A list of taps, into which only those of some cells of a plane come.
template <typename AnyTap>
class Taps {
 public:
  Taps(const GridSampling& sampling, int64_t first_cell, int64_t cells)
      : width_(static_cast<uint64_t>(sampling.width)),
        height_(static_cast<uint64_t>(sampling.height)),
        first_cell_(static_cast<uint64_t>(first_cell)),
        cells_(static_cast<uint64_t>(cells)) {}

  void Clear() { end_ = taps_; }

  // Without a branch, because nobody can predict it. Numbers below 0 are large without a sign.
  void Add(int64_t column, int64_t row, AnyTap tap) {
    const auto x = static_cast<uint64_t>(column);
    const auto y = static_cast<uint64_t>(row);
    const uint64_t cell = y * width_ + x - first_cell_;
    tap.cell = static_cast<int64_t>(cell);
    *end_ = tap;
    end_ += static_cast<int>(x < width_) & static_cast<int>(y < height_) & static_cast<int>(cell < cells_);
  }

  [[nodiscard]] const AnyTap* begin() const { return taps_; }
  [[nodiscard]] const AnyTap* end() const { return end_; }

 private:
  const uint64_t width_;
  const uint64_t height_;
  const uint64_t first_cell_;
  const uint64_t cells_;
  AnyTap taps_[4 * kPoints + 1];
  AnyTap* end_ = taps_;
};

template <typename F>
void AddNearest(const Points<F>& points, int32_t count, Taps<Tap<F>>& taps) {
  for (int32_t i = 0; i < count; ++i) {
    const auto column = static_cast<int32_t>(std::nearbyint(points.x.at[i]));
    const auto row = static_cast<int32_t>(std::nearbyint(points.y.at[i]));
    taps.Add(column, row, {0, i, 1});
  }
}

// Corner by corner: points that follow one another often share cells, and a sum waits for the one before.
template <typename F>
void AddBilinear(const Points<F>& points, int32_t count, Taps<Tap<F>>& taps) {
  Corners<F> corners;
  corners.Find(points, count);
  for (int32_t corner = 0; corner < 4; ++corner) {
    const int64_t right = corner % 2;
    const int64_t below = corner / 2;
    const F* const along = right == 0 ? corners.left : corners.right;
    const F* const down = below == 0 ? corners.top : corners.bottom;
    for (int32_t i = 0; i < count; ++i) {
      taps.Add(corners.column[i] + right, corners.row[i] + below, {0, i, along[i] * down[i]});
    }
  }
}

}  // namespace
}  // namespace acl_host
