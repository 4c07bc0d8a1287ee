#include "families/max_pool/pooling.h"

#include <algorithm>

namespace acl_host {

int64_t PooledSize(int64_t size, int64_t kernel, int64_t stride, int64_t padding, bool ceil_mode) {
  // Room for windows after the first. 128 bits, because any of the four may be huge.
  const __int128 room = static_cast<__int128>(size) + 2 * static_cast<__int128>(padding) - kernel;
  const __int128 rounded = room + (ceil_mode ? stride - 1 : 0);
  // Division truncates; what is wanted is the floor.
  const bool truncated_up = rounded < 0 && rounded % stride != 0;
  __int128 count = rounded / stride - (truncated_up ? 1 : 0) + 1;
  // A last window that would begin in the padding behind the input is left out.
  if (ceil_mode && (count - 1) * stride >= static_cast<__int128>(size) + padding) --count;
  return static_cast<int64_t>(std::max<__int128>(count, 0));
}

int64_t BandRows(const MaxPool& pool) {
  constexpr int64_t kCells = 32768;
  const int64_t window_rows = std::min(pool.kernel.height, pool.input.height);
  const int64_t two_windows = window_rows + std::min(window_rows, pool.input.height - window_rows);
  return std::clamp(kCells / pool.input.width, two_windows, pool.input.height);
}

uint64_t BandBytes(const MaxPool& pool) {
  return static_cast<uint64_t>(BandRows(pool) * pool.input.width + 1) * sizeof(float);
}

}  // namespace acl_host
