#include "families/max_pool/pooling.h"

#include <algorithm>

namespace acl_host {

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
