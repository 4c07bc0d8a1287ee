// The innermost loops of depthwise convolutions: sums of taps for a long row of results, and sums of such a row for
// each tap.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "families/convolution/depthwise.h"
#include "families/convolution/depthwise_rows.h"
#include "families/gemm/micro_kernel.h"
#include "tensors/lanes.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

// Vectors of results at a time, and taps that are summed at a time, as many as there are registers for.
constexpr size_t kResultVectors = 8;
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr size_t kSummedTaps = 12;
#else
constexpr size_t kSummedTaps = 10;
#endif

template <size_t... kVector>
inline void SumTapsOf(std::index_sequence<kVector...> /*vectors*/, const float* source, const float* weights,
                      const DepthwiseTap* taps, int64_t count, bool is_first, float bias, float* to) {
  std::array<FloatLanes, sizeof...(kVector)> sums;
  sums.fill(Repeated(bias));
  for (int64_t tap = 0; tap < count; ++tap) {
    const FloatLanes weight = Repeated(weights[tap]);
    const float* const from = source + taps[tap].offset;
    ((sums[kVector] = MultiplyAdd(weight, LoadFloats(from + kVector * kFloatLanes), sums[kVector])), ...);
  }
  const auto store = [&](auto vector) {
    float* const place = to + vector * kFloatLanes;
    StoreFloats(is_first ? sums[vector] : sums[vector] + LoadFloats(place), place);
  };
  (store(std::integral_constant<size_t, kVector>{}), ...);
}

template <size_t... kTap>
inline void MultiplySumsOf(std::index_sequence<kTap...> /*taps*/, const float* small, const float* source,
                           const DepthwiseTap* taps, int64_t vectors, float* lanes) {
  std::array<FloatLanes, sizeof...(kTap)> sums{};
  const std::array<const float*, sizeof...(kTap)> from{source + taps[kTap].offset...};
  for (int64_t i = 0; i < vectors * kFloatLanes; i += kFloatLanes) {
    const FloatLanes factor = LoadFloats(small + i);
    ((sums[kTap] = MultiplyAdd(factor, LoadFloats(from[kTap] + i), sums[kTap])), ...);
  }
  const auto add = [&](auto tap) {
    float* const place = lanes + tap * kFloatLanes;
    StoreFloats(LoadFloats(place) + sums[tap], place);
  };
  (add(std::integral_constant<size_t, kTap>{}), ...);
}

// Calls call with the sequence of indices of a length from 1 to kMost.
template <size_t kMost, typename Call>
inline void WithIndices(int64_t length, const Call& call) {
  if constexpr (kMost > 1) {
    if (length < static_cast<int64_t>(kMost)) return WithIndices<kMost - 1>(length, call);
  }
  call(std::make_index_sequence<kMost>{});
}

// Calls visit(first, count) for pieces of nearly equal lengths, of at most kMost.
template <size_t kMost, typename Visit>
inline void ForPieces(int64_t length, const Visit& visit) {
  const int64_t pieces = (length + static_cast<int64_t>(kMost) - 1) / static_cast<int64_t>(kMost);
  for (int64_t i = 0; i < pieces; ++i) visit(i * length / pieces, (i + 1) * length / pieces - i * length / pieces);
}

// Whole vectors of results, each the sum of the bias and of all taps.
inline void SumTaps(const float* source, const float* weights, const std::vector<DepthwiseTap>& taps, int64_t length,
                    float bias, float* to) {
  const auto count = static_cast<int64_t>(taps.size());
  if (count == 0) return void(std::fill_n(to, length, bias));
  ForPieces<kResultVectors>((length + kFloatLanes - 1) / kFloatLanes, [&](int64_t vector, int64_t vectors) {
    const int64_t place = vector * kFloatLanes;
    WithIndices<kResultVectors>(vectors, [&](auto indices) {
      for (int64_t first = 0; first < count; first += kMostFloatAdditions) {
        SumTapsOf(indices, source + place, weights + first, taps.data() + first,
                  std::min(kMostFloatAdditions, count - first), first == 0, first == 0 ? bias : 0, to + place);
      }
    });
  });
}

// Adds to the lanes of each tap the products of a row and of what it reads.
inline void MultiplySums(const float* small, const float* source, const std::vector<DepthwiseTap>& taps,
                         int64_t vectors, float* lanes) {
  ForPieces<kSummedTaps>(static_cast<int64_t>(taps.size()), [&](int64_t first, int64_t count) {
    WithIndices<kSummedTaps>(count, [&](auto indices) {
      MultiplySumsOf(indices, small, source, taps.data() + first, vectors, lanes + first * kFloatLanes);
    });
  });
}

}  // namespace
}  // namespace acl_host
