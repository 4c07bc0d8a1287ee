// Rows of depthwise convolutions, packed as float32 between zeros. They write whole vectors, so up to one behind a row
// is written too: rows are made in the order in which they lie in memory, and something is left behind the last one.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "families/rows/pairs.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

inline void PackZeros(int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kFloatLanes) StoreFloats(FloatLanes{}, to + i);
}

template <typename T>
inline void PackElements(const std::byte* from, int64_t stride, int64_t count, float* to) {
  if (stride == 1) {
    ForLanes(count, [&](int64_t i, auto lanes) { StoreFloats(LoadLanes<T>(from, i, lanes), to + i); });
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = WidenElement<T>(from, i * stride);
  }
}

}  // namespace
}  // namespace acl_host
