#ifndef ACL_HOST_VECTOR_MAX_POOL2D_WITH_MASK_BACKWARD_H_
#define ACL_HOST_VECTOR_MAX_POOL2D_WITH_MASK_BACKWARD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "acl/acl_base.h"
#include "max_pool_checks.h"
#include "plan.h"
#include "vector/levels.h"

namespace acl_host {

enum class MaskKind { kArgmax, kBits };

// gradOutput and the mask -> the gradient, of a floating-point type of up to 32 bits. The scratch has room for the
// bands of so many threads.
template <VectorLevel>
struct MaxPool2dWithMaskBackward {
  static void Run(const MaxPool& pool, MaskKind kind, aclDataType type, int64_t bands, const Launch& launch);
};

// A band is the rows of a plane that sums are being made in: the whole plane, or what a core's cache holds of it, but
// at least the rows of two windows.
inline int64_t BandRows(const MaxPool& pool) {
  constexpr int64_t kCells = 32768;
  const int64_t window_rows = std::min(pool.kernel.height, pool.input.height);
  const int64_t two_windows = window_rows + std::min(window_rows, pool.input.height - window_rows);
  return std::clamp(kCells / pool.input.width, two_windows, pool.input.height);
}

// Behind the band's sums is one more, for the windows that chose nothing.
inline uint64_t BandBytes(const MaxPool& pool) {
  return static_cast<uint64_t>(BandRows(pool) * pool.input.width + 1) * sizeof(float);
}

}  // namespace acl_host

#endif  // ACL_HOST_VECTOR_MAX_POOL2D_WITH_MASK_BACKWARD_H_
