// Rows of float32 that are taken apart, and put together. They read and write whole vectors, so up to one behind a row
// is read and written too.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tensors/lanes.h"

namespace acl_host {
namespace {

inline FloatLanes LoadFloats(const float* from) {
  return LoadLanes<float>(reinterpret_cast<const std::byte*>(from), 0, AllLanes{});
}
inline void StoreFloats(FloatLanes lanes, float* to) {
  StoreLanes<float>(lanes, reinterpret_cast<std::byte*>(to), 0, AllLanes{});
}

using LaneIndices = std::make_integer_sequence<int, static_cast<int>(kFloatLanes)>;

template <int... kLane>
inline void SplitPair(std::integer_sequence<int, kLane...> /*lanes*/, const float* from, float* even, float* odd) {
  const FloatLanes low = LoadFloats(from);
  const FloatLanes high = LoadFloats(from + kFloatLanes);
  StoreFloats(__builtin_shufflevector(low, high, (2 * kLane)...), even);
  StoreFloats(__builtin_shufflevector(low, high, (2 * kLane + 1)...), odd);
}

template <int... kLane>
inline void JoinPair(std::integer_sequence<int, kLane...> /*lanes*/, const float* even, const float* odd, float* to) {
  constexpr int kLanes = static_cast<int>(kFloatLanes);
  const FloatLanes first = LoadFloats(even);
  const FloatLanes second = LoadFloats(odd);
  StoreFloats(__builtin_shufflevector(first, second, (kLane / 2 + kLane % 2 * kLanes)...), to);
  StoreFloats(__builtin_shufflevector(first, second, (kLanes / 2 + kLane / 2 + kLane % 2 * kLanes)...),
              to + kFloatLanes);
}

// Each second element from the first one on, and from the second one on.
inline void Split(const float* from, int64_t count, float* even, float* odd) {
  for (int64_t i = 0; i < count; i += kFloatLanes) SplitPair(LaneIndices{}, from + 2 * i, even + i, odd + i);
}

// Elements of phases that lie so far apart, in turns.
inline void Join(const float* from, int64_t apart, int64_t phases, int64_t count, float* to) {
  if (phases == 2) {
    for (int64_t i = 0; i < count; i += kFloatLanes) JoinPair(LaneIndices{}, from + i, from + apart + i, to + 2 * i);
    return;
  }
  for (int64_t phase = 0; phase < phases; ++phase) {
    for (int64_t i = 0; i < count; ++i) to[phases * i + phase] = from[phase * apart + i];
  }
}

}  // namespace
}  // namespace acl_host
