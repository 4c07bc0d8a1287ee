#include "indices.h"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>

#include "value.h"

namespace aclgrad {
namespace {

// Without a branch, and by signs alone, so that vectors of any processor do it: of an index that is negative, or of its
// distance from the last.
template <typename Index>
bool AnyOutside(const void* indices, std::size_t begin, std::size_t end, Index last) {
  using Bits = std::make_unsigned_t<Index>;
  Bits outside = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const Bits index = Load<Bits>(indices, i);
    outside |= index | (static_cast<Bits>(last) - index);
  }
  return static_cast<Index>(outside) < 0;
}

template <typename Index>
void Check(const void* indices, std::size_t count, int64_t bound) {
  constexpr std::size_t kBlock = 4096;
  const auto last = static_cast<Index>(std::min<int64_t>(bound - 1, std::numeric_limits<Index>::max()));
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(count, begin + kBlock);
    if (!AnyOutside<Index>(indices, begin, end, last)) continue;
    std::size_t first = begin;
    while (static_cast<uint64_t>(Load<Index>(indices, first)) < static_cast<uint64_t>(bound)) ++first;
    throw InvalidValue("has " + std::to_string(Load<Index>(indices, first)) + " at position " + std::to_string(first) +
                       ", outside [0, " + std::to_string(bound) + ")");
  }
}

}  // namespace

void CheckIndices(const void* indices, std::size_t count, std::size_t item_bytes, int64_t bound) {
  item_bytes == sizeof(int32_t) ? Check<int32_t>(indices, count, bound) : Check<int64_t>(indices, count, bound);
}

void CheckBools(const void* bools, std::size_t count) { Check<int8_t>(bools, count, 2); }

}  // namespace aclgrad
