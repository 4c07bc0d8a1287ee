// Rows of bfloat16, of which two registers are read and written at a time: every second element each. That takes no
// moves between lanes. In an unnamed namespace, because each vector level has its own.
#pragma once

#include <array>
#include <cstring>

#include "tensors/lanes.h"

namespace acl_host {
namespace {

template <size_t kInputs>
using Rows = std::array<const std::byte*, kInputs>;

// The nearest bfloat16 in the upper half. A NaN stays one: its lower half is that of a bfloat16 or of a result, with
// zeros.
inline WordLanes ToUpperHalf(FloatLanes value) {
  const auto bits = BitCast<WordLanes>(value);
  return bits + 0x7FFFU + ((bits >> 16) & 1U);
}

// Stores make(load) for the elements of two registers: load(i) has those of row i.
template <size_t kInputs, typename Make>
inline void StorePair(const Rows<kInputs>& rows, std::byte* to, const Make& make) {
  const FloatLanes even =
      make([&](size_t i) { return BitCast<FloatLanes>(WordLanes{LoadSome<WordLanes>(rows[i], AllLanes{}) << 16}); });
  const FloatLanes odd = make(
      [&](size_t i) { return BitCast<FloatLanes>(WordLanes{LoadSome<WordLanes>(rows[i], AllLanes{}) & 0xFFFF0000U}); });
  StoreSome(WordLanes{(ToUpperHalf(even) >> 16) | (ToUpperHalf(odd) & 0xFFFF0000U)}, to, AllLanes{});
}

template <size_t kInputs, typename Make>
inline void ForPairs(const Rows<kInputs>& rows, std::byte* to, int64_t count, const Make& make) {
  constexpr int64_t kBytes = sizeof(WordLanes);
  const int64_t end = count * int64_t{sizeof(BFloat16)};
  Rows<kInputs> at = rows;
  int64_t done = 0;
  for (; done + kBytes <= end; done += kBytes) {
    StorePair(at, to + done, make);
    for (const std::byte*& each : at) each += kBytes;
  }
  if (done == end) return;
  const auto rest = static_cast<size_t>(end - done);
  std::array<WordLanes, kInputs> last{};
  WordLanes made;
  for (size_t i = 0; i < kInputs; ++i) {
    std::memcpy(&last[i], at[i], rest);
    at[i] = reinterpret_cast<const std::byte*>(&last[i]);
  }
  StorePair(at, reinterpret_cast<std::byte*>(&made), make);
  std::memcpy(to + done, &made, rest);
}

}  // namespace
}  // namespace acl_host
