// Converts elements, and rows of them, to the type of their sums and back. For float16 it uses the processor's own
// conversions if the vector level or the architecture has them. These give the same bits as half.h, except that they
// make signalling NaNs quiet.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tensors/elements.h"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace acl_host {
namespace {

// How many elements one instruction converts.
#if defined(__F16C__)
constexpr int64_t kHalves = 8;
inline void WidenHalves(const std::byte* from, float* to) {
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
inline void RoundHalves(const float* from, std::byte* to) {
  const __m128i rounded = _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), rounded);
}
inline float WidenHalf(Float16 half) { return _cvtsh_ss(half.bits); }
inline Float16 RoundHalf(float value) { return {_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)}; }
#elif defined(__aarch64__)
constexpr int64_t kHalves = 4;
inline void WidenHalves(const std::byte* from, float* to) {
  vst1q_f32(to, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(reinterpret_cast<const uint8_t*>(from)))));
}
inline void RoundHalves(const float* from, std::byte* to) {
  vst1_u8(reinterpret_cast<uint8_t*>(to), vreinterpret_u8_f16(vcvt_f16_f32(vld1q_f32(from))));
}
inline float WidenHalf(Float16 half) {
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half.bits))), 0);
}
inline Float16 RoundHalf(float value) {
  return {vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(value))), 0)};
}
#else
constexpr int64_t kHalves = 0;
inline void WidenHalves(const std::byte*, float*) {}
inline void RoundHalves(const float*, std::byte*) {}
inline float WidenHalf(Float16 half) { return half.ToFloat(); }
inline Float16 RoundHalf(float value) { return Float16::FromFloat(value); }
#endif

// Whether a row is converted as a whole, before or after the loop over its elements, instead of one by one.
template <typename T>
constexpr bool kConverts = std::is_same_v<T, Float16> && kHalves > 0;

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

template <typename T>
void WidenRow(const std::byte* __restrict from, Wide<T>* __restrict to, int64_t count) {
  int64_t i = 0;
  if constexpr (kConverts<T>) {
    for (; i + kHalves <= count; i += kHalves) WidenHalves(from + i * int64_t{sizeof(T)}, to + i);
  }
  for (; i < count; ++i) to[i] = WidenElement<T>(from, i);
}

// Adds a row to the sums, or to zeros in their place.
template <typename T, bool kToZeros = false>
void AddRow(const std::byte* __restrict row, int64_t count, Wide<T>* __restrict sums) {
  if constexpr (kConverts<T>) {
    constexpr int64_t kBlock = 256;
    float widened[kBlock];
    for (int64_t begin = 0; begin < count; begin += kBlock) {
      const int64_t cells = std::min(count - begin, kBlock);
      WidenRow<T>(row + begin * int64_t{sizeof(T)}, widened, cells);
      for (int64_t i = 0; i < cells; ++i) sums[begin + i] = (kToZeros ? 0.0F : sums[begin + i]) + widened[i];
    }
  } else {
    for (int64_t i = 0; i < count; ++i) sums[i] = (kToZeros ? Wide<T>{} : sums[i]) + LoadWide<T>(row, i);
  }
}

template <typename T>
void RoundRow(const Wide<T>* __restrict from, std::byte* __restrict to, int64_t count) {
  int64_t i = 0;
  if constexpr (kConverts<T>) {
    for (; i + kHalves <= count; i += kHalves) RoundHalves(from + i, to + i * int64_t{sizeof(T)});
  }
  for (; i < count; ++i) RoundElement<T>(to, i, from[i]);
}

}  // namespace
}  // namespace acl_host
