// The order in which kernels go through several views of the same dims, the last of which is written.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tensors/tensor.h"

namespace acl_host {

// An axis of more than one element, with the steps through the views, in elements.
template <size_t kViews>
struct WalkedAxis {
  int64_t size;
  std::array<int64_t, kViews> steps;
};

// Rows along the axis with the shortest steps in the last view. Adjacent axes that lie together in all views are one.
// Work is divided into units: rows, or parts of long ones.
template <size_t kViews>
class ViewWalk {
 public:
  using Axis = WalkedAxis<kViews>;
  using Places = std::array<int64_t, kViews>;

  static constexpr int64_t kPartElements = 65536;

  // Of views with elements. Offsets are the caller's.
  ViewWalk(const Dims& dims, const std::array<Dims, kViews>& strides, int64_t part_elements = kPartElements)
      : part_elements_(part_elements) {
    std::vector<Axis> axes;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      if (dims[axis] == 1) continue;
      Axis walked{dims[axis], {}};
      for (size_t view = 0; view < kViews; ++view) walked.steps[view] = strides[view][axis];
      axes.push_back(walked);
    }
    std::stable_sort(axes.begin(), axes.end(), [](const Axis& one, const Axis& other) {
      return std::abs(one.steps.back()) > std::abs(other.steps.back());
    });
    for (const Axis& axis : axes) Append(axis);
    if (axes_.empty()) axes_.push_back({1, OfOne()});
    Count();
  }

  // That of the rows; of single elements it has the size 1.
  [[nodiscard]] const Axis& row() const { return axes_.back(); }
  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t units() const { return rows_ * parts_; }
  // Elements of most units.
  [[nodiscard]] int64_t unit_elements() const { return std::min(row().size, part_elements_); }
  // All axes, the rows' last.
  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }

  // The same with an axis moved to the place before the rows'.
  [[nodiscard]] ViewWalk WithNextToRows(size_t axis) const {
    ViewWalk other = *this;
    const auto found = other.axes_.begin() + static_cast<std::ptrdiff_t>(axis);
    std::rotate(found, found + 1, other.axes_.end() - 1);
    return other;
  }

  // Calls visit(places, count) for the units [begin, end), with the places of the first element of each.
  template <typename Visit>
  void ForUnits(int64_t begin, int64_t end, const Visit& visit) const {
    if (begin >= end) return;
    const size_t outer = axes_.size() - 1;
    std::vector<int64_t> position(outer);
    Places places{};
    int64_t rest = begin / parts_;
    for (size_t axis = outer; axis-- > 0;) {
      position[axis] = rest % axes_[axis].size;
      rest /= axes_[axis].size;
      Step(places, axes_[axis], position[axis]);
    }
    int64_t part = begin % parts_;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = part * part_elements_;
      Places of_unit = places;
      Step(of_unit, axes_[outer], first);
      visit(of_unit, std::min(part_elements_, axes_[outer].size - first));
      if (++part < parts_) continue;
      part = 0;
      for (size_t axis = outer; axis-- > 0;) {
        Step(places, axes_[axis], 1);
        if (++position[axis] < axes_[axis].size) break;
        Step(places, axes_[axis], -axes_[axis].size);
        position[axis] = 0;
      }
    }
  }

 private:
  static void Step(Places& places, const Axis& axis, int64_t steps) {
    for (size_t view = 0; view < kViews; ++view) places[view] += steps * axis.steps[view];
  }
  static Places OfOne() {
    Places ones;
    ones.fill(1);
    return ones;
  }

  void Append(const Axis& axis) {
    if (!axes_.empty()) {
      Axis& last = axes_.back();
      bool joins = true;
      for (size_t view = 0; view < kViews; ++view) joins &= last.steps[view] == axis.steps[view] * axis.size;
      if (joins) {
        last = {last.size * axis.size, axis.steps};
        return;
      }
    }
    axes_.push_back(axis);
  }

  void Count() {
    for (size_t axis = 0; axis + 1 < axes_.size(); ++axis) rows_ *= axes_[axis].size;
    parts_ = (axes_.back().size - 1) / part_elements_ + 1;
  }

  std::vector<Axis> axes_;
  int64_t part_elements_;
  int64_t rows_ = 1;
  int64_t parts_ = 1;  // of each row
};

}  // namespace acl_host
