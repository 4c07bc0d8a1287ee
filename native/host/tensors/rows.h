// Converts elements, and rows of them, to the type of their sums and back. For float16 it uses the processor's own
// conversions if the vector level or the architecture has them. These give the same bits as half.h, except that they
// make signalling NaNs quiet.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tensors/elements.h"
#include "tensors/lanes.h"

namespace acl_host {
namespace {

#if defined(__F16C__)
constexpr bool kHasHalves = true;
inline float WidenHalf(Float16 half) { return _cvtsh_ss(half.bits); }
inline Float16 RoundHalf(float value) { return {_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)}; }
#elif defined(__aarch64__)
constexpr bool kHasHalves = true;
inline float WidenHalf(Float16 half) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half.bits))), 0);
}
inline Float16 RoundHalf(float value) {
  return {vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(value))), 0)};
}
#else
constexpr bool kHasHalves = false;
inline float WidenHalf(Float16 half) { return half.ToFloat(); }
inline Float16 RoundHalf(float value) { return Float16::FromFloat(value); }
#endif

// Whether a row is converted as a whole, before or after the loop over its elements, instead of one by one.
template <typename T>
constexpr bool kConverts = std::is_same_v<T, Float16> && kHasHalves;

template <typename T>
[[nodiscard]] Wide<T> WidenElement(const std::byte* base, int64_t index) {
  if constexpr (kConverts<T>) {
    return WidenHalf(LoadElement<T>(base, index));
  } else {
    return LoadWide<T>(base, index);
  }
}

template <typename T>
void RoundElement(std::byte* base, int64_t index, Wide<T> value) {
  if constexpr (kConverts<T>) {
    StoreElement(base, index, RoundHalf(value));
  } else {
    StoreRounded<T>(base, index, value);
  }
}

// The rows' sums are of type Wide<T> or LongSum<T>.
template <typename T, typename Sum>
void WidenRow(const std::byte* __restrict from, Sum* __restrict to, int64_t count) {
  if constexpr (std::is_same_v<Sum, float>) {
    std::byte* const floats = reinterpret_cast<std::byte*>(to);
    ForLanes(count, [&](int64_t i, auto lanes) { StoreLanes<float>(LoadLanes<T>(from, i, lanes), floats, i, lanes); });
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = Sum{WidenElement<T>(from, i)};
  }
}

// Adds a row to the sums, or to zeros in their place.
template <typename T, bool kToZeros = false, typename Sum>
void AddRow(const std::byte* __restrict row, int64_t count, Sum* __restrict sums) {
  if constexpr (std::is_same_v<Sum, float>) {
    std::byte* const floats = reinterpret_cast<std::byte*>(sums);
    ForLanes(count, [&](int64_t i, auto lanes) {
      const FloatLanes before = kToZeros ? FloatLanes{} : LoadLanes<float>(floats, i, lanes);
      StoreLanes<float>(before + LoadLanes<T>(row, i, lanes), floats, i, lanes);
    });
  } else {
    for (int64_t i = 0; i < count; ++i) sums[i] = (kToZeros ? Sum{} : sums[i]) + Sum{WidenElement<T>(row, i)};
  }
}

template <typename T, typename Sum>
void RoundRow(const Sum* __restrict from, std::byte* __restrict to, int64_t count) {
  if constexpr (std::is_same_v<Sum, float>) {
    const std::byte* const floats = reinterpret_cast<const std::byte*>(from);
    ForLanes(count, [&](int64_t i, auto lanes) { StoreLanes<T>(LoadLanes<float>(floats, i, lanes), to, i, lanes); });
  } else {
    for (int64_t i = 0; i < count; ++i) RoundElement<T>(to, i, static_cast<Wide<T>>(from[i]));
  }
}

}  // namespace
}  // namespace acl_host
