// Max pooling as arithmetic: its sizes, and the bands of a plane that sums are made in.
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

// A band is the rows of a plane that sums are being made in: the whole plane, or what a core's cache holds of it, but
// at least the rows of two windows.
[[nodiscard]] int64_t BandRows(const MaxPool& pool);

// Behind the band's sums is one more, for the windows that chose nothing.
[[nodiscard]] uint64_t BandBytes(const MaxPool& pool);

}  // namespace acl_host
