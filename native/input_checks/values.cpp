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
// distance from the last. Index has the values of Stored, and negative ones.
template <typename Stored, typename Index, bool kIgnores>
bool AnyOutside(const void* indices, std::size_t begin, std::size_t end, Index last, Index ignored) {
  using Bits = std::make_unsigned_t<Index>;
  Bits outside = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const auto index = static_cast<Bits>(Load<Stored>(indices, i));
    const Bits found = index | (static_cast<Bits>(last) - index);
    outside |= kIgnores && index == static_cast<Bits>(ignored) ? Bits{0} : found;
  }
  return static_cast<Index>(outside) < 0;
}

template <typename Stored, typename Index = Stored>
void Check(const void* indices, std::size_t count, int64_t bound, std::optional<int64_t> ignored = std::nullopt) {
  constexpr std::size_t kBlock = 4096;
  constexpr int64_t kMost = std::numeric_limits<Index>::max();
  const auto last = static_cast<Index>(std::min<int64_t>(bound - 1, kMost));
  // Index holds every value, so no value equals what it cannot hold.
  if (ignored && static_cast<Index>(*ignored) != *ignored) ignored.reset();
  const auto skipped = static_cast<Index>(ignored.value_or(0));
  const auto any_outside = ignored ? AnyOutside<Stored, Index, true> : AnyOutside<Stored, Index, false>;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(count, begin + kBlock);
    if (!any_outside(indices, begin, end, last, skipped)) continue;
    const auto is_legal = [&](int64_t index) {
      return static_cast<uint64_t>(index) < static_cast<uint64_t>(bound) || index == ignored;
    };
    std::size_t first = begin;
    while (is_legal(Load<Stored>(indices, first))) ++first;
    const std::string but = ignored ? " and not " + std::to_string(*ignored) + ", which is ignored" : "";
    throw InvalidValue("has " + std::to_string(int64_t{Load<Stored>(indices, first)}) + " at position " +
                       std::to_string(first) + ", outside [0, " + std::to_string(bound) + ")" + but);
  }
}

}  // namespace

void CheckIndices(const void* indices, std::size_t count, std::size_t item_bytes, int64_t bound,
                  std::optional<int64_t> ignored) {
  switch (item_bytes) {
    case sizeof(uint8_t):
      return Check<uint8_t, int32_t>(indices, count, bound, ignored);
    case sizeof(int32_t):
      return Check<int32_t>(indices, count, bound, ignored);
    default:
      return Check<int64_t>(indices, count, bound, ignored);
  }
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
