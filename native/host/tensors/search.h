// The search for a place in an order that a guess is near to.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstdint>

namespace acl_host {
namespace {

// The first index from 0 to end that is not before, where those that are before come first. It is looked for around
// the likely one, ever farther away.
template <typename IsBefore>
[[nodiscard]] int64_t FirstNotBefore(int64_t likely, int64_t end, const IsBefore& is_before) {
  int64_t high = likely;
  int64_t low = high;
  for (int64_t reach = 1; low > 0 && !is_before(low - 1); reach *= 2) low = std::max(low - reach, int64_t{0});
  for (int64_t reach = 1; high < end && is_before(high); reach *= 2) {
    low = high + 1;
    high = std::min(high + reach, end);
  }
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    is_before(middle) ? low = middle + 1 : high = middle;
  }
  return low;
}

}  // namespace
}  // namespace acl_host
