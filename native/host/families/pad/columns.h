// How the padded columns become the columns of a tile: the same for all rows.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "families/pad/copies.h"

namespace acl_host {
namespace {

// Neighbouring cells that have as many copies: copy i of the first cell is at first[i], that of the next cell a step
// further. A border cell that was replicated has any number of them: the range [first[0], first[0] + copies).
struct Run {
  int64_t begin;
  int64_t end;
  int64_t copies = 0;
  std::array<int64_t, 3> first{};
  std::array<int64_t, 3> step{};

  [[nodiscard]] int64_t size() const { return end - begin; }
};

class Columns {
 public:
  explicit Columns(const Pad& pad) : pad_(pad), axis_(pad.columns) {
    const Range moved = MovedCells(pad.rule, axis_);
    moves_all_ = moved.size() == axis_.padded && moved.size() == axis_.size;
  }

  void SetTile(int64_t left, int64_t right) {
    left_ = left;
    right_ = right;
    const Range own = OwnCells(axis_);
    own_.begin = std::clamp(own.begin, left, right);
    own_.end = std::clamp(own.end, own_.begin, right);
    used_ = 0;
    pad_.rule == PadRule::kReflection ? Reflect(own) : Replicate();
  }

  // Whether each cell is its only copy.
  [[nodiscard]] bool moves_all() const { return moves_all_; }
  // The cells of the tile that are not cropped: moved, unless they are in a run.
  [[nodiscard]] const Range& own() const { return own_; }
  [[nodiscard]] int64_t OwnCopy() const { return own_.begin + axis_.before; }

  // The cells that are not just moved, in an order in which they can be written.
  [[nodiscard]] const Run* begin() const { return runs_.data(); }
  [[nodiscard]] const Run* end() const { return runs_.data() + used_; }

 private:
  // Each border mirrors all other cells, so there are up to three copies.
  void Reflect(const Range& own) {
    struct Image {
      Range cells;
      int64_t origin;  // the place of cell 0's copy
      int64_t step;
    };
    const int64_t before = axis_.before;
    const int64_t far = before + 2 * (axis_.size - 1);
    const std::array<Image, 3> images = {{
        {{std::max<int64_t>(1, before - axis_.padded + 1), before + 1}, before, -1},
        {own, before, 1},
        {{std::max<int64_t>(0, far - axis_.padded + 1), std::min(axis_.size - 1, far + 1)}, far, -1},
    }};
    std::array<int64_t, 8> edges = {left_, right_};
    size_t count = 2;
    for (const Image& image : images) {
      edges[count++] = std::clamp(image.cells.begin, left_, right_);
      edges[count++] = std::clamp(image.cells.end, left_, right_);
    }
    std::sort(edges.begin(), edges.end());
    for (size_t i = 0; i + 1 < edges.size(); ++i) {
      Run run{edges[i], edges[i + 1]};
      if (run.size() == 0) continue;
      for (const Image& image : images) {
        if (run.begin < image.cells.begin || run.begin >= image.cells.end) continue;
        const auto copy = static_cast<size_t>(run.copies++);
        run.first[copy] = image.origin + image.step * run.begin;
        run.step[copy] = image.step;
      }
      const bool is_moved = run.copies == 1 && run.step[0] == 1;
      if (!is_moved) runs_[used_++] = run;
    }
  }

  // Each border cell is copied to all cells that were added beside it.
  void Replicate() {
    if (left_ < own_.begin) runs_[used_++] = {left_, own_.begin};
    if (own_.end < right_) runs_[used_++] = {own_.end, right_};
    ReplicateBorder(0);
    if (axis_.size > 1) ReplicateBorder(axis_.size - 1);
  }

  void ReplicateBorder(int64_t cell) {
    if (cell < left_ || cell >= right_) return;
    const Copies copies(pad_.rule, axis_, cell);
    if (copies.count() == 0) return;
    const int64_t first = copies.first();
    const bool is_moved = copies.count() == 1 && first == cell + axis_.before;
    if (!is_moved) runs_[used_++] = {cell, cell + 1, copies.count(), {first, first + 1, first + 2}, {1, 1, 1}};
  }

  const Pad& pad_;
  const PaddedAxis& axis_;
  bool moves_all_;
  int64_t left_ = 0;
  int64_t right_ = 0;
  Range own_{0, 0};
  std::array<Run, 8> runs_{};
  size_t used_ = 0;
};

}  // namespace
}  // namespace acl_host
