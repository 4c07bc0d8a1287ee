// Functions of float32, with the same bits at every vector level. For results of type float their relative errors are a
// few units in the last place; for those of 16 bits, which have fewer digits, they are below 2^-13.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <type_traits>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "tensors/exp.h"
#include "tensors/lanes.h"

namespace acl_host {
namespace {

constexpr float kLog2E = 1.44269504F;

// 2^x for x from -250 to 128, and NaN. A power that another number is subtracted from needs more digits.
template <typename T, bool kIsSubtracted = false>
[[nodiscard]] FloatLanes Exp2Within(FloatLanes x) {
  const FloatLanes exponent = (x + kExponentShift) - kExponentShift;
  const FloatLanes r = x - exponent;
  // The smallest relative errors.
  if constexpr (std::is_same_v<T, float>) {
    const FloatLanes square = r * r;
    const FloatLanes upper = (1.53458110e-4F * square + 0.00961848907F) + 0.00133999309F * r;
    const FloatLanes lower = (0.0555032864F * r + 0.240226462F) * square + 0.693147182F * r;
    return Scaled((upper * square) * square + lower + 1.0F, exponent);
  } else if constexpr (kIsSubtracted) {
    const FloatLanes upper = (0.00957010128F * r + 0.0559178591F) * r + 0.240247443F;
    return Scaled(upper * (r * r) + (0.693121791F * r + 0.999999285F), exponent);
  } else {
    return Scaled(((0.0551716648F * r + 0.242611125F) * r + 0.693260968F) * r + 0.999928057F, exponent);
  }
}

// exp(x) for x from -170 to 88, and NaN.
template <typename T, bool kIsSubtracted = false>
[[nodiscard]] FloatLanes ExpNear(FloatLanes x) {
  if constexpr (std::is_same_v<T, float>) {
    return ExpWithin(x);
  } else {
    return Exp2Within<T, kIsSubtracted>(x * kLog2E);
  }
}

// exp(x) of any number.
template <typename T>
[[nodiscard]] FloatLanes ExpOf(FloatLanes x) {
  return ExpNear<T>(ExpBounded(x));
}

// x within the bounds; NaN remains.
inline FloatLanes Bounded(FloatLanes x, float bound) { return AtMost(AtLeast(x, -bound), bound); }

// NaN of negative numbers.
inline FloatLanes SquareRoot(FloatLanes x) {
#if defined(__AVX512F__)
  return BitCast<FloatLanes>(_mm512_maskz_sqrt_ps(kEveryLane, BitCast<__m512>(x)));
#elif defined(__AVX__)
  return BitCast<FloatLanes>(_mm256_sqrt_ps(BitCast<__m256>(x)));
#elif defined(__SSE__)
  return BitCast<FloatLanes>(_mm_sqrt_ps(BitCast<__m128>(x)));
#elif defined(__aarch64__)
  return BitCast<FloatLanes>(vsqrtq_f32(BitCast<float32x4_t>(x)));
#else
  for (int64_t i = 0; i < kFloatLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

// -|x|.
inline FloatLanes NegativeSize(FloatLanes x) {
  return BitCast<FloatLanes>(WordLanes{BitCast<WordLanes>(x) | 0x80000000U});
}

// x, or -x if the other number is negative.
inline FloatLanes WithSign(FloatLanes x, FloatLanes other) {
  return BitCast<FloatLanes>(WordLanes{BitCast<WordLanes>(x) ^ (BitCast<WordLanes>(other) & 0x80000000U)});
}

// (x phi(x) - 1 + Phi(x)) / exp(-x^2 / 2) for x from 0 to 18, with the distribution function Phi and the density phi of
// normal numbers.
template <typename T>
[[nodiscard]] FloatLanes GeluTail(FloatLanes x) {
  constexpr float kCentre = 3.0F;
  const FloatLanes sum = x + kCentre;
  const FloatLanes t = (x - kCentre) / sum;
  const FloatLanes square = t * t;
  // The smallest errors of its ratio to x + 3 for x up to 14, absolute ones next to its zero. The exponential is 0 from
  // 14.5 on.
  if constexpr (std::is_same_v<T, float>) {
    const FloatLanes first = -6.27499248e-5F * square + (-9.10910021e-5F * t + 6.42544939e-4F);
    const FloatLanes second = 5.30003861e-4F * t - 0.0087234769F;
    const FloatLanes third = 0.0282410923F * t - 0.0549379587F;
    const FloatLanes last = 0.254123837F * t + 0.179218814F;
    return (((first * square + second) * square + third) * square + last) * sum;
  } else {
    const FloatLanes upper = (-0.00809950475F * t + 0.0287075154F) * t - 0.0550570302F;
    return (upper * square + (0.254036129F * t + 0.179218635F)) * sum;
  }
}

// 1 / (1 + exp(-x)), and one minus that, without cancellation.
template <typename T = float, bool kIsSubtracted = false>
struct Sigmoid {
  explicit Sigmoid(FloatLanes x) : Sigmoid(x, AtLeast(NegativeSize(x), -104.0F)) {}
  // With -|x|, if that is at least -170.
  Sigmoid(FloatLanes x, FloatLanes negative) {
    const FloatLanes tail = ExpNear<T, kIsSubtracted>(negative);
    const FloatLanes larger = 1.0F / (1.0F + tail);
    const FloatLanes smaller = tail * larger;
    value = x < 0.0F ? smaller : larger;
    complement = x < 0.0F ? larger : smaller;
    product = smaller * larger;
  }

  FloatLanes value;
  FloatLanes complement;
  FloatLanes product;  // of both
};

}  // namespace
}  // namespace acl_host
