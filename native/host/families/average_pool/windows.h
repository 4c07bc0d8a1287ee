// The windows of an average pooling along one axis.
#pragma once

#include <cstdint>
#include <vector>

namespace acl_host {

struct Range {
  int64_t begin;
  int64_t end;

  [[nodiscard]] int64_t size() const { return end - begin; }
  [[nodiscard]] bool operator==(const Range& other) const { return begin == other.begin && end == other.end; }
};

// One axis before and after pooling; neither size is 0. Without a kernel, pooling is adaptive.
struct PooledAxis {
  int64_t size;
  int64_t pooled;
  int64_t kernel = 0;
  int64_t stride = 0;
  int64_t padding = 0;
  bool counts_padding = false;
};

// An axis that is not pooled.
inline constexpr PooledAxis kNotPooled{1, 1};

// The cells of a window, and the number that it counts, which may include padding.
struct Window {
  Range cells;
  int64_t count;
};

[[nodiscard]] std::vector<Window> WindowsOf(const PooledAxis& axis);

// For each cell along the axis, the windows that cover it. They are a range, because windows begin and end in order.
[[nodiscard]] std::vector<Range> CoversOf(int64_t size, const std::vector<Window>& windows);

}  // namespace acl_host
