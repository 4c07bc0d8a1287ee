#include "indices.h"

#include <algorithm>
#include <string>

#include "invalid_value.h"
#include "load.h"
#include "processors.h"

namespace aclgrad {
namespace {

// Without a branch in the loops, so that the compiler vectorises them. A negative index is a large unsigned one.
FOR_EACH_PROCESSOR bool AnyOutside32(const void* indices, std::size_t begin, std::size_t end, uint32_t bound) {
  uint32_t outside = 0;
  for (std::size_t i = begin; i < end; ++i) outside |= Load<uint32_t>(indices, i) < bound ? 0U : 1U;
  return outside != 0;
}

FOR_EACH_PROCESSOR bool AnyOutside64(const void* indices, std::size_t begin, std::size_t end, uint64_t bound) {
  uint64_t outside = 0;
  for (std::size_t i = begin; i < end; ++i) outside |= Load<uint64_t>(indices, i) < bound ? 0U : 1U;
  return outside != 0;
}

FOR_EACH_PROCESSOR bool AnyAboveOne(const void* bools, std::size_t begin, std::size_t end) {
  uint8_t bits = 0;
  for (std::size_t i = begin; i < end; ++i) bits |= Load<uint8_t>(bools, i);
  return bits > 1;
}

template <typename Index, typename AnyOutside>
void Check(const void* indices, std::size_t count, int64_t bound, const AnyOutside& any_outside) {
  constexpr std::size_t kBlock = 4096;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(count, begin + kBlock);
    if (!any_outside(indices, begin, end)) continue;
    std::size_t first = begin;
    while (static_cast<uint64_t>(Load<Index>(indices, first)) < static_cast<uint64_t>(bound)) ++first;
    throw InvalidValue("has " + std::to_string(Load<Index>(indices, first)) + " at position " + std::to_string(first) +
                       ", outside [0, " + std::to_string(bound) + ")");
  }
}

}  // namespace

void CheckIndices(const void* indices, std::size_t count, std::size_t item_bytes, int64_t bound) {
  if (item_bytes == sizeof(int32_t)) {
    // No negative index may become one below the bound.
    const auto bound32 = static_cast<uint32_t>(std::min(bound, int64_t{1} << 31));
    const auto any_outside = [=](const void* data, std::size_t begin, std::size_t end) {
      return AnyOutside32(data, begin, end, bound32);
    };
    return Check<int32_t>(indices, count, bound, any_outside);
  }
  const auto any_outside = [=](const void* data, std::size_t begin, std::size_t end) {
    return AnyOutside64(data, begin, end, static_cast<uint64_t>(bound));
  };
  Check<int64_t>(indices, count, bound, any_outside);
}

void CheckBools(const void* bools, std::size_t count) { Check<uint8_t>(bools, count, 2, AnyAboveOne); }

}  // namespace aclgrad
