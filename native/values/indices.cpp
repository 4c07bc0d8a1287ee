#include "indices.h"

#include <algorithm>
#include <string>

#include "invalid_value.h"
#include "load.h"

namespace aclgrad {

void CheckIndices(const void* indices, std::size_t count, int64_t bound) {
  constexpr std::size_t kBlock = 4096;
  const auto is_bad = [bound](int64_t index) { return static_cast<uint64_t>(index) >= static_cast<uint64_t>(bound); };
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(count, begin + kBlock);
    // Without a branch on the way, so that the compiler makes vectors of it; the position is found afterwards.
    bool any_bad = false;
    for (std::size_t i = begin; i < end; ++i) any_bad |= is_bad(Load<int64_t>(indices, i));
    if (!any_bad) continue;
    std::size_t first = begin;
    while (!is_bad(Load<int64_t>(indices, first))) ++first;
    throw InvalidValue("has " + std::to_string(Load<int64_t>(indices, first)) + " at position " +
                       std::to_string(first) + ", outside [0, " + std::to_string(bound) + ")");
  }
}

}  // namespace aclgrad
