#include "values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>

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

void CheckReciprocals(const void* reciprocals, std::size_t count, const VarianceCheck& check) {
  const double least = 1 / std::sqrt(double{std::numeric_limits<float>::max()});
  const double most = 1 / std::sqrt(check.eps);
  const double above = most * (1 + check.tolerance);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = double{Load<float>(reciprocals, i)};
    if (std::isnan(value) || value == 0 || value == std::numeric_limits<double>::infinity()) continue;
    if (least <= value && value <= above) continue;
    std::ostringstream text;
    text << "has " << value << " at position " << i << ", outside [" << least << ", " << most
         << "], the reciprocals of standard deviations for an eps of " << check.eps;
    throw InvalidValue(text.str());
  }
}

void WriteVariances(const void* reciprocals, std::size_t count, const VarianceCheck& check, void* variances) {
  for (std::size_t i = 0; i < count; ++i) {
    const double value = double{Load<float>(reciprocals, i)};
    const double variance = 1 / (value * value) - check.eps;
    // -eps stays for an infinite reciprocal, which the device takes back as 1 / sqrt(-eps + eps). Not std::max, which
    // would hide a NaN.
    const float rounded = variance < 0 && std::isfinite(value) ? 0.0F : static_cast<float>(variance);
    std::memcpy(static_cast<std::byte*>(variances) + i * sizeof(float), &rounded, sizeof(rounded));
  }
}

}  // namespace aclgrad
