// Axes of tensors: ranges of positions along them, and the windows that fit.
#pragma once

#include <algorithm>
#include <cstdint>

namespace acl_host {

// The positions from begin on, before end.
struct Range {
  int64_t begin;
  int64_t end;

  [[nodiscard]] int64_t size() const { return std::max<int64_t>(end - begin, 0); }
  [[nodiscard]] bool Contains(int64_t position) const { return begin <= position && position < end; }
  [[nodiscard]] bool Meets(const Range& other) const { return begin < other.end && other.begin < end; }
  [[nodiscard]] bool operator==(const Range& other) const { return begin == other.begin && end == other.end; }
};

// A value for each axis of two-dimensional windows.
struct Pair {
  int64_t height;
  int64_t width;

  [[nodiscard]] bool operator==(const Pair& other) const { return height == other.height && width == other.width; }
};

// The windows of one size along an axis that reach into some cells.
[[nodiscard]] inline Range WindowsOver(const Range& cells, int64_t kernel, int64_t stride, int64_t padding,
                                       int64_t windows) {
  const int64_t place = cells.begin + padding;
  const int64_t begin = place < kernel ? 0 : (place - kernel) / stride + 1;
  return {begin, std::max(begin, std::min((cells.end - 1 + padding) / stride + 1, windows))};
}

// The number of windows of one size that fit along an axis; 0 if none fits.
[[nodiscard]] int64_t PooledSize(int64_t size, int64_t kernel, int64_t stride, int64_t padding, bool ceil_mode);

}  // namespace acl_host
