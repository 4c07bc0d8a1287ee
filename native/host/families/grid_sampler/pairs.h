// Gathers pairs of cells that lie side by side, a register of each at a time.
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

// The gathers are masked, with all lanes, for the reason that lanes.h has for its functions.
struct PairLanes {
  FloatLanes first;
  FloatLanes second;
};

#if defined(__AVX512F__)
inline PairLanes GatherFloats(const std::byte* row, WordLanes cells) {
  const auto all = BitCast<__m512i>(cells);
  const auto gathered = [row](__m256i places) {
    return BitCast<__m512>(_mm512_mask_i32gather_pd(_mm512_setzero_pd(), 0xFF, places, row, 4));
  };
  const __m512 low = gathered(_mm512_maskz_extracti64x4_epi64(0xF, all, 0));
  const __m512 high = gathered(_mm512_maskz_extracti64x4_epi64(0xF, all, 1));
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return {BitCast<FloatLanes>(_mm512_maskz_permutex2var_ps(kEveryLane, low, even, high)),
          BitCast<FloatLanes>(_mm512_maskz_permutex2var_ps(kEveryLane, low, odd, high))};
}
// Two elements of 16 bits in each word.
inline WordLanes GatherHalves(const std::byte* row, WordLanes cells) {
  return BitCast<WordLanes>(
      _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), kEveryLane, BitCast<__m512i>(cells), row, 2));
}
#elif defined(__AVX2__)
inline PairLanes GatherFloats(const std::byte* row, WordLanes cells) {
  const auto all = BitCast<__m256i>(cells);
  const auto every = BitCast<__m256d>(_mm256_set1_epi64x(-1));
  const auto gathered = [=](__m128i places) {
    const auto* const pairs = reinterpret_cast<const double*>(row);
    return BitCast<__m256>(_mm256_mask_i32gather_pd(_mm256_setzero_pd(), pairs, places, every, 4));
  };
  const __m256 low = gathered(_mm256_castsi256_si128(all));
  const __m256 high = gathered(_mm256_extracti128_si256(all, 1));
  const auto ordered = [](__m256 lanes) {
    return BitCast<FloatLanes>(_mm256_permute4x64_pd(BitCast<__m256d>(lanes), _MM_SHUFFLE(3, 1, 2, 0)));
  };
  return {ordered(_mm256_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0))),
          ordered(_mm256_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)))};
}
inline WordLanes GatherHalves(const std::byte* row, WordLanes cells) {
  const auto* const pairs = reinterpret_cast<const int*>(row);
  const __m256i every = _mm256_set1_epi64x(-1);
  return BitCast<WordLanes>(
      _mm256_mask_i32gather_epi32(_mm256_setzero_si256(), pairs, BitCast<__m256i>(cells), every, 2));
}
#else
inline PairLanes GatherFloats(const std::byte* row, WordLanes cells) {
  PairLanes pairs;
  for (int64_t i = 0; i < kFloatLanes; ++i) {
    pairs.first[i] = LoadElement<float>(row, cells[i]);
    pairs.second[i] = LoadElement<float>(row, int64_t{cells[i]} + 1);
  }
  return pairs;
}
inline WordLanes GatherHalves(const std::byte* row, WordLanes cells) {
  WordLanes pairs;
  for (int64_t i = 0; i < kFloatLanes; ++i) {
    pairs[i] = LoadElement<uint32_t>(row + int64_t{cells[i]} * int64_t{sizeof(uint16_t)}, 0);
  }
  return pairs;
}
#endif

// The elements at these places of a row, which are below 2^31, and those behind them. Memory is little-endian.
template <typename T>
[[nodiscard]] inline PairLanes GatherPairs(const std::byte* row, WordLanes cells) {
  if constexpr (std::is_same_v<T, float>) {
    return GatherFloats(row, cells);
  } else {
    const WordLanes pairs = GatherHalves(row, cells);
    if constexpr (std::is_same_v<T, BFloat16>) {
      return {BitCast<FloatLanes>(WordLanes{pairs << 16}), BitCast<FloatLanes>(WordLanes{pairs & 0xFFFF0000U})};
    } else {
      return {WidenFloat16s(ToHalves(WordLanes{pairs & 0xFFFFU})), WidenFloat16s(ToHalves(WordLanes{pairs >> 16}))};
    }
  }
}

}  // namespace
}  // namespace acl_host
