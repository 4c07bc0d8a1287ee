// How long a sum in float32 may be. A client chooses the lengths of most sums, so every operator that adds up keeps to
// this.
#pragma once

#include <complex>
#include <cstdint>

#include "tensors/elements.h"

namespace acl_host {

// The most additions one after the other in float32: together they are wrong by at most 2^-17 of a sum of equal signs.
// A longer sum is in float64: of the elements, or of such sums.
inline constexpr int64_t kMostFloatAdditions = 256;

template <typename T>
struct LongSumOf {
  using Type = T;
};
template <>
struct LongSumOf<float> {
  using Type = double;
};
template <>
struct LongSumOf<std::complex<float>> {
  using Type = std::complex<double>;
};

// The type of sums of elements of type T for which Wide<T> is too short.
template <typename T>
using LongSum = typename LongSumOf<Wide<T>>::Type;

// Calls visit with the TypeTag of the type for sums of elements of type T, by at most so many additions.
template <typename T, typename Visitor>
void VisitSumType(int64_t additions, const Visitor& visit) {
  additions <= kMostFloatAdditions ? visit(TypeTag<Wide<T>>{}) : visit(TypeTag<LongSum<T>>{});
}

}  // namespace acl_host
