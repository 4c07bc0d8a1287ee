#include "families/average_pool/windows.h"

#include <algorithm>

namespace acl_host {
namespace {

// Window i covers the cells [floor(i * size / count), ceil((i + 1) * size / count)). The fractions are carried from one
// window to the next, so that no product can overflow.
std::vector<Window> Divide(int64_t size, int64_t count) {
  std::vector<Window> windows(static_cast<size_t>(count));
  int64_t begin = 0;
  int64_t remainder = 0;
  for (Window& window : windows) {
    window.cells.begin = begin;
    begin += size / count;
    // remainder + size % count may exceed 63 bits; the distance to count does not.
    const int64_t distance = count - remainder;
    if (size % count >= distance) {
      ++begin;
      remainder = size % count - distance;
    } else {
      remainder += size % count;
    }
    window.cells.end = begin + (remainder > 0 ? 1 : 0);
    window.count = window.cells.size();
  }
  return windows;
}

}  // namespace

std::vector<Window> WindowsOf(const PooledAxis& axis) {
  if (axis.kernel == 0) return Divide(axis.size, axis.pooled);
  std::vector<Window> windows(static_cast<size_t>(axis.pooled));
  int64_t begin = -axis.padding;
  for (Window& window : windows) {
    // 128 bits, because padding may be huge.
    const __int128 room = static_cast<__int128>(axis.size) + axis.padding - begin;
    const int64_t end = begin + static_cast<int64_t>(std::min<__int128>(axis.kernel, room));
    window.cells = {std::max<int64_t>(begin, 0), std::min(end, axis.size)};
    window.count = axis.counts_padding ? end - begin : window.cells.size();
    begin += axis.stride;
  }
  return windows;
}

std::vector<Range> CoversOf(int64_t size, const std::vector<Window>& windows) {
  std::vector<Range> covers(static_cast<size_t>(size));
  const auto count = static_cast<int64_t>(windows.size());
  const auto cells = [&](int64_t window) { return windows[static_cast<size_t>(window)].cells; };
  Range cover{0, 0};
  for (Range& each : covers) {
    const int64_t cell = &each - covers.data();
    while (cover.begin < count && cells(cover.begin).end <= cell) ++cover.begin;
    cover.end = std::max(cover.begin, cover.end);
    while (cover.end < count && cells(cover.end).begin <= cell) ++cover.end;
    each = cover;
  }
  return covers;
}

}  // namespace acl_host
