// Where the upsampled cells of an axis come from.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "computation.h"
#include "tensors/search.h"

namespace acl_host {
namespace {

// Between a cell and the next one, which has this share of the upsampled cell; the last cell has all of it.
struct LinearSource {
  int64_t cell;
  float own;
  float of_next;
};

class Sources {
 public:
  explicit Sources(const LinearAxis& axis) : axis_(axis) {}

  [[nodiscard]] LinearSource Of(int64_t copy) const {
    const LinearSource source = WithNextOf(copy);
    return source.cell < axis_.size - 1 ? source : LinearSource{source.cell, source.own + source.of_next, 0};
  }

  // As if the last cell were followed by itself.
  [[nodiscard]] LinearSource WithNextOf(int64_t copy) const {
    const float place = Place(copy);
    const int64_t cell = std::min(static_cast<int64_t>(place), axis_.size - 1);
    const float of_next = std::clamp(place - static_cast<float>(cell), 0.0F, 1.0F);
    return {cell, 1.0F - of_next, of_next};
  }

  // The first copy that comes from this cell or a later one. Places ascend with the copies, also after rounding.
  [[nodiscard]] int64_t Begin(int64_t cell) const {
    if (cell <= 0) return 0;
    if (cell >= axis_.size) return axis_.upsampled;
    const float start = axis_.aligns_corners ? static_cast<float>(cell) : static_cast<float>(cell) + 0.5F;
    return FirstNotBefore(Clamp(start / axis_.ratio), axis_.upsampled,
                          [&](int64_t copy) { return IsBefore(copy, cell); });
  }

  // The most copies that a cell has a share of.
  [[nodiscard]] int64_t Most() const {
    return axis_.size == 1 ? axis_.upsampled : 2 * (axis_.upsampled / (axis_.size - 1) + 2);
  }

  // The begins of the cells before these.
  static void Fill(const LinearAxis& axis, int64_t first, int64_t count, int64_t* begins) {
    const Sources sources(axis);
    for (int64_t i = 0; i < count; ++i) begins[i] = sources.Begin(first + i - 1);
  }

 private:
  [[nodiscard]] float Place(int64_t copy) const {
    const auto index = static_cast<float>(copy);
    return axis_.aligns_corners ? axis_.ratio * index : std::max(axis_.ratio * (index + 0.5F) - 0.5F, 0.0F);
  }

  [[nodiscard]] bool IsBefore(int64_t copy, int64_t cell) const { return static_cast<int64_t>(Place(copy)) < cell; }

  [[nodiscard]] int64_t Clamp(float copy) const {
    return copy < static_cast<float>(axis_.upsampled) ? static_cast<int64_t>(copy) : axis_.upsampled;
  }

  const LinearAxis& axis_;
};

}  // namespace
}  // namespace acl_host
