#include "indices.h"

#include <algorithm>
#include <string>

#include "invalid_value.h"
#include "load.h"

namespace aclgrad {
namespace {

template <typename Index>
void Check(const void* indices, std::size_t count, int64_t bound) {
  constexpr std::size_t kBlock = 4096;
  const auto is_bad = [bound](int64_t index) { return static_cast<uint64_t>(index) >= static_cast<uint64_t>(bound); };
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(count, begin + kBlock);
    // Without a branch in the loop, so that the compiler vectorises it; the position is found afterwards.
    bool any_bad = false;
    for (std::size_t i = begin; i < end; ++i) any_bad |= is_bad(Load<Index>(indices, i));
    if (!any_bad) continue;
    std::size_t first = begin;
    while (!is_bad(Load<Index>(indices, first))) ++first;
    throw InvalidValue("has " + std::to_string(Load<Index>(indices, first)) + " at position " + std::to_string(first) +
                       ", outside [0, " + std::to_string(bound) + ")");
  }
}

}  // namespace

void CheckIndices(const void* indices, std::size_t count, std::size_t item_bytes, int64_t bound) {
  item_bytes == sizeof(int32_t) ? Check<int32_t>(indices, count, bound) : Check<int64_t>(indices, count, bound);
}

}  // namespace aclgrad
