// The exponential function of float32, with the same bits at every vector level. Its relative error is below 2^-23.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include "tensors/lanes.h"

namespace acl_host {
namespace {

// Added to an integer, it has its bits last: 1.5 * 2^23, and the biases of two exponents.
constexpr float kExponentShift = 12582912.0F + 254.0F;

// x * 2^exponent, rounded once, for x near 1.
inline FloatLanes Scaled(FloatLanes x, FloatLanes exponent) {
#if defined(__AVX512F__)
  return BitCast<FloatLanes>(_mm512_maskz_scalef_ps(kEveryLane, BitCast<__m512>(x), BitCast<__m512>(exponent)));
#else
  // Two factors, because one would be too small if the result is subnormal, or too large.
  const auto biased = BitCast<WordLanes>(FloatLanes{exponent + kExponentShift});
  const WordLanes half = biased >> 1;
  return x * BitCast<FloatLanes>(WordLanes{half << 23}) * BitCast<FloatLanes>(WordLanes{(biased - half) << 23});
#endif
}

// Of numbers from -170, whose exponentials are 0, to 89, and of NaN.
[[nodiscard]] inline FloatLanes ExpWithin(FloatLanes x) {
  constexpr float kLog2E = 1.44269504F;
  // ln(2) in two parts, of which the first times any exponent is exact.
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  const FloatLanes exponent = (x * kLog2E + kExponentShift) - kExponentShift;
  const FloatLanes r = (x - exponent * kLn2High) - exponent * kLn2Low;
  // A least squares fit of (exp(r) - 1 - r) / r^2, in an order with little to wait for.
  const FloatLanes square = r * r;
  const FloatLanes upper = 0.00139345449F * r + 0.00836377685F;
  const FloatLanes lower = 0.0416664556F * r + 0.166665733F;
  const FloatLanes fit = (upper * square + lower) * r + 0.5F;
  return Scaled(fit * square + r + 1.0F, exponent);
}

// The nearest number whose exponential has an exponent from -150, which rounds to 0, to 128, which is infinity.
[[nodiscard]] inline FloatLanes ExpBounded(FloatLanes x) { return AtMost(AtLeast(x, -104.0F), 89.0F); }

// Of any number: infinity above the largest float, subnormal numbers and 0 below the least normal one, and NaN.
[[nodiscard]] inline FloatLanes Exp(FloatLanes x) { return ExpWithin(ExpBounded(x)); }

}  // namespace
}  // namespace acl_host
