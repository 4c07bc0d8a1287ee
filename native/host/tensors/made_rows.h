// Makes rows of elements from rows of elements, a register of each at a time. Of bfloat16 two registers are read and
// written at a time, of every second element each: that takes no moves between lanes.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <array>
#include <cstring>
#include <type_traits>

#include "tensors/lanes.h"

namespace acl_host {
namespace {

template <size_t kCount>
using Rows = std::array<const std::byte*, kCount>;
template <size_t kCount>
using MadeRows = std::array<std::byte*, kCount>;
// One of each row that is made.
template <size_t kCount>
using MadeLanes = std::array<FloatLanes, kCount>;

// The nearest bfloat16 in the upper half. A NaN stays one: its lower half is that of a bfloat16 or of a result, with
// zeros.
inline WordLanes ToUpperHalf(FloatLanes value) {
  const auto bits = BitCast<WordLanes>(value);
  return bits + 0x7FFFU + ((bits >> 16) & 1U);
}

template <size_t kInputs, size_t kOutputs, typename Make>
inline void MapPair(const Rows<kInputs>& rows, const MadeRows<kOutputs>& to, const Make& make) {
  const MadeLanes<kOutputs> even =
      make([&](size_t i) { return BitCast<FloatLanes>(WordLanes{LoadSome<WordLanes>(rows[i], AllLanes{}) << 16}); });
  const MadeLanes<kOutputs> odd = make(
      [&](size_t i) { return BitCast<FloatLanes>(WordLanes{LoadSome<WordLanes>(rows[i], AllLanes{}) & 0xFFFF0000U}); });
  for (size_t i = 0; i < kOutputs; ++i) {
    StoreSome(WordLanes{(ToUpperHalf(even[i]) >> 16) | (ToUpperHalf(odd[i]) & 0xFFFF0000U)}, to[i], AllLanes{});
  }
}

template <size_t kInputs, size_t kOutputs, typename Make>
inline void MapPairs(Rows<kInputs> rows, MadeRows<kOutputs> to, int64_t count, const Make& make) {
  constexpr int64_t kBytes = sizeof(WordLanes);
  int64_t left = count * int64_t{sizeof(BFloat16)};
  for (; left >= kBytes; left -= kBytes) {
    MapPair(rows, to, make);
    for (const std::byte*& each : rows) each += kBytes;
    for (std::byte*& each : to) each += kBytes;
  }
  if (left == 0) return;
  const auto bytes = static_cast<size_t>(left);
  std::array<WordLanes, kInputs> last{};
  std::array<WordLanes, kOutputs> made;
  MadeRows<kOutputs> made_rows;
  for (size_t i = 0; i < kInputs; ++i) {
    std::memcpy(&last[i], rows[i], bytes);
    rows[i] = reinterpret_cast<const std::byte*>(&last[i]);
  }
  for (size_t i = 0; i < kOutputs; ++i) made_rows[i] = reinterpret_cast<std::byte*>(&made[i]);
  MapPair(rows, made_rows, make);
  for (size_t i = 0; i < kOutputs; ++i) std::memcpy(to[i], &made[i], bytes);
}

// Makes rows of floats of up to 32 bits: make(load) returns the registers of all of them, and load(i) reads that of
// row i. Rows that are read may be those that are made.
template <typename T, size_t kInputs, size_t kOutputs, typename Make>
inline void MapRows(const Rows<kInputs>& rows, const MadeRows<kOutputs>& to, int64_t count, const Make& make) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    MapPairs(rows, to, count, make);
  } else {
    ForLanes(count, [&](int64_t first, auto lanes) {
      const MadeLanes<kOutputs> made = make([&](size_t i) { return LoadLanes<T>(rows[i], first, lanes); });
      for (size_t i = 0; i < kOutputs; ++i) StoreLanes<T>(made[i], to[i], first, lanes);
    });
  }
}

}  // namespace
}  // namespace acl_host
