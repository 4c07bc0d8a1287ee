// The sizes of a max pooling, and the bands in which the sums of a plane are computed.
#pragma once

#include <cstdint>

#include "plan/int_arrays.h"

namespace acl_host {

struct MaxPool {
  int64_t batches;
  int64_t channels;
  Pair input;
  Pair output;
  Pair kernel;
  Pair stride;
  Pair padding;
};

// The rows of a plane whose sums are computed at a time: the whole plane, or as many rows as fit a core's cache, but at
// least the rows of two windows.
[[nodiscard]] int64_t BandRows(const MaxPool& pool);

// The band's sums, and one more for the windows that chose nothing.
[[nodiscard]] uint64_t BandBytes(const MaxPool& pool);

}  // namespace acl_host
