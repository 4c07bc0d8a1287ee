// As many float32 as a register of the vector level holds, read from and written to elements of any type up to 32 bits.
// Float16 is converted by the processor if it can; that gives the bits of half.h, but makes signalling NaNs quiet.
//
// Arithmetic on lanes is that of each number by itself. So a formula has the same bits at every vector level, and at
// the end of a row, where some lanes are zeros.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tensors/elements.h"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace acl_host {
namespace {

#if defined(__AVX512F__)
constexpr int64_t kFloatLanes = 16;
#elif defined(__AVX2__)
constexpr int64_t kFloatLanes = 8;
#else
constexpr int64_t kFloatLanes = 4;
#endif

typedef float FloatLanes __attribute__((vector_size(4 * kFloatLanes)));
typedef uint32_t WordLanes __attribute__((vector_size(4 * kFloatLanes)));
typedef uint16_t HalfLanes __attribute__((vector_size(2 * kFloatLanes)));

// How many lanes a step of ForLanes has, if it has all of them.
using AllLanes = std::integral_constant<int64_t, kFloatLanes>;

// Calls step(first, lanes) for the elements [first, first + lanes) of each full register, and of what remains.
template <typename Step>
inline void ForLanes(int64_t count, const Step& step) {
  int64_t i = 0;
  for (; i + kFloatLanes <= count; i += kFloatLanes) step(i, AllLanes{});
  if (i < count) step(i, count - i);
}

// The AVX-512 functions are masked, with all lanes: of the plain forms GCC 12 says that they read uninitialised memory.
// For the conversions between words and halves it makes slow code of its own.
#if defined(__AVX512F__)
constexpr __mmask16 kEveryLane = 0xFFFF;
inline WordLanes ToWords(HalfLanes halves) {
  return BitCast<WordLanes>(_mm512_maskz_cvtepu16_epi32(kEveryLane, BitCast<__m256i>(halves)));
}
inline HalfLanes ToHalves(WordLanes words) {
  return BitCast<HalfLanes>(_mm512_maskz_cvtepi32_epi16(kEveryLane, BitCast<__m512i>(words)));
}
inline FloatLanes WidenFloat16s(HalfLanes halves) {
  return BitCast<FloatLanes>(_mm512_maskz_cvtph_ps(kEveryLane, BitCast<__m256i>(halves)));
}
inline HalfLanes RoundToFloat16s(FloatLanes lanes) {
  return BitCast<HalfLanes>(_mm512_maskz_cvtps_ph(kEveryLane, BitCast<__m512>(lanes), _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__F16C__)
inline WordLanes ToWords(HalfLanes halves) {
  return BitCast<WordLanes>(_mm256_cvtepu16_epi32(BitCast<__m128i>(halves)));
}
inline HalfLanes ToHalves(WordLanes words) {
  const auto all = BitCast<__m256i>(words);
  return BitCast<HalfLanes>(_mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
}
inline FloatLanes WidenFloat16s(HalfLanes halves) {
  return BitCast<FloatLanes>(_mm256_cvtph_ps(BitCast<__m128i>(halves)));
}
inline HalfLanes RoundToFloat16s(FloatLanes lanes) {
  return BitCast<HalfLanes>(_mm256_cvtps_ph(BitCast<__m256>(lanes), _MM_FROUND_TO_NEAREST_INT));
}
#else
inline WordLanes ToWords(HalfLanes halves) { return __builtin_convertvector(halves, WordLanes); }
inline HalfLanes ToHalves(WordLanes words) { return __builtin_convertvector(words, HalfLanes); }
#if defined(__aarch64__)
inline FloatLanes WidenFloat16s(HalfLanes halves) {
  return BitCast<FloatLanes>(vcvt_f32_f16(BitCast<float16x4_t>(halves)));
}
inline HalfLanes RoundToFloat16s(FloatLanes lanes) {
  return BitCast<HalfLanes>(vcvt_f16_f32(BitCast<float32x4_t>(lanes)));
}
#else
inline FloatLanes WidenFloat16s(HalfLanes halves) { return WidenFloat16<FloatLanes>(ToWords(halves)); }
inline HalfLanes RoundToFloat16s(FloatLanes lanes) { return ToHalves(RoundToFloat16<FloatLanes, WordLanes>(lanes)); }
#endif
#endif

// Some of the lanes, with zeros in the others; and to memory, some of them.
#if defined(__AVX512F__)
template <typename Packed>
inline Packed LoadSome(const std::byte* from, int64_t lanes) {
  const auto mask = static_cast<__mmask16>((1U << lanes) - 1U);
  if constexpr (std::is_same_v<Packed, FloatLanes>)
    return BitCast<Packed>(_mm512_maskz_loadu_ps(mask, from));
  else
    return BitCast<Packed>(_mm256_maskz_loadu_epi16(mask, from));
}
template <typename Packed>
inline void StoreSome(Packed packed, std::byte* to, int64_t lanes) {
  const auto mask = static_cast<__mmask16>((1U << lanes) - 1U);
  if constexpr (std::is_same_v<Packed, FloatLanes>)
    _mm512_mask_storeu_ps(to, mask, BitCast<__m512>(packed));
  else
    _mm256_mask_storeu_epi16(to, mask, BitCast<__m256i>(packed));
}
#else
template <typename Packed>
inline Packed LoadSome(const std::byte* from, int64_t lanes) {
#if defined(__AVX2__)
  // A register that was written in parts waits until they are in the cache.
  if constexpr (std::is_same_v<Packed, FloatLanes>) {
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(lanes)),  //
                                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return BitCast<Packed>(_mm256_maskload_ps(reinterpret_cast<const float*>(from), mask));
  }
#endif
  Packed packed{};
  std::memcpy(&packed, from, static_cast<size_t>(lanes) * sizeof(packed) / kFloatLanes);
  return packed;
}
template <typename Packed>
inline void StoreSome(Packed packed, std::byte* to, int64_t lanes) {
  std::memcpy(to, &packed, static_cast<size_t>(lanes) * sizeof(packed) / kFloatLanes);
}
#endif
template <typename Packed>
inline Packed LoadSome(const std::byte* from, AllLanes) {
  Packed packed;
  std::memcpy(&packed, from, sizeof(packed));
  return packed;
}
template <typename Packed>
inline void StoreSome(Packed packed, std::byte* to, AllLanes) {
  std::memcpy(to, &packed, sizeof(packed));
}

// Elements [first, first + lanes) of a row that begins at any byte, and zeros in the lanes that are left.
template <typename T, typename Count>
[[nodiscard]] inline FloatLanes LoadLanes(const std::byte* row, int64_t first, Count lanes) {
  using Packed = std::conditional_t<std::is_same_v<T, float>, FloatLanes, HalfLanes>;
  const auto packed = LoadSome<Packed>(row + first * int64_t{sizeof(T)}, lanes);
  if constexpr (std::is_same_v<T, float>) {
    return packed;
  } else if constexpr (std::is_same_v<T, Float16>) {
    return WidenFloat16s(packed);
  } else {
    return WidenBFloat16<FloatLanes>(ToWords(packed));
  }
}

template <typename T, typename Count>
inline void StoreLanes(FloatLanes values, std::byte* row, int64_t first, Count lanes) {
  const auto packed = [&] {
    if constexpr (std::is_same_v<T, float>) {
      return values;
    } else if constexpr (std::is_same_v<T, Float16>) {
      return RoundToFloat16s(values);
    } else {
      return ToHalves(RoundToBFloat16<FloatLanes, WordLanes>(values));
    }
  }();
  StoreSome(packed, row + first * int64_t{sizeof(T)}, lanes);
}

// A number in every lane.
inline FloatLanes Filled(float value) { return FloatLanes{} + value; }

// Some of the lanes, with zeros in the others, whatever these were.
inline FloatLanes FirstLanes(FloatLanes values, AllLanes) { return values; }
inline FloatLanes FirstLanes(FloatLanes values, int64_t lanes) {
#if defined(__AVX512F__)
  return BitCast<FloatLanes>(_mm512_maskz_mov_ps(static_cast<__mmask16>((1U << lanes) - 1U), BitCast<__m512>(values)));
#else
  WordLanes places;
  for (int64_t i = 0; i < kFloatLanes; ++i) places[i] = static_cast<uint32_t>(i);
  return places < static_cast<uint32_t>(lanes) ? values : FloatLanes{};
#endif
}

// The sum of all lanes, by halves.
template <size_t kLanes>
struct LanesOf {
  typedef float Type __attribute__((vector_size(4 * kLanes)));
};
template <size_t kLanes = kFloatLanes>
[[nodiscard]] inline float SumOfLanes(typename LanesOf<kLanes>::Type lanes) {
  if constexpr (kLanes == 1) {
    return lanes[0];
  } else {
    typename LanesOf<kLanes / 2>::Type halves[2];
    std::memcpy(halves, &lanes, sizeof(lanes));
    return SumOfLanes<kLanes / 2>(halves[0] + halves[1]);
  }
}

// The number or the bound, whichever is larger, or smaller; NaN remains.
#if defined(__AVX512F__)
inline FloatLanes AtLeast(FloatLanes x, float bound) {
  return BitCast<FloatLanes>(_mm512_maskz_max_ps(kEveryLane, _mm512_set1_ps(bound), BitCast<__m512>(x)));
}
inline FloatLanes AtMost(FloatLanes x, float bound) {
  return BitCast<FloatLanes>(_mm512_maskz_min_ps(kEveryLane, _mm512_set1_ps(bound), BitCast<__m512>(x)));
}
#else
inline FloatLanes AtLeast(FloatLanes x, float bound) { return x < bound ? Filled(bound) : x; }
inline FloatLanes AtMost(FloatLanes x, float bound) { return x > bound ? Filled(bound) : x; }
#endif

inline FloatLanes Size(FloatLanes x) { return BitCast<FloatLanes>(WordLanes{BitCast<WordLanes>(x) & 0x7FFFFFFFU}); }

}  // namespace
}  // namespace acl_host
