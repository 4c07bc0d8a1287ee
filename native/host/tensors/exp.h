// The exponential function of float32, with the same bits at every vector level. Its relative error is below 2^-23.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include "tensors/lanes.h"

namespace acl_host {
namespace {

// Of any number: infinity above the largest float, 0 where the result is about the least normal one or below, and NaN.
[[nodiscard]] inline FloatLanes Exp(FloatLanes x) {
  constexpr float kLog2E = 1.44269504F;
  // ln(2) in two parts, of which the first times any exponent is exact.
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  // The exponents of these are -126 and 128.
  constexpr float kLeast = -87.3F;
  constexpr float kMost = 89.0F;
  // Adding it rounds to an integer, which then is in the last bits, plus 126.
  constexpr float kShift = 12582912.0F + 126.0F;
  const FloatLanes bounded = AtMost(AtLeast(x, kLeast), kMost);
  const FloatLanes shifted = bounded * kLog2E + kShift;
  const FloatLanes exponent = shifted - kShift;
  const FloatLanes r = (bounded - exponent * kLn2High) - exponent * kLn2Low;
  // Twice a least squares fit of (exp(r) - 1 - r) / r^2, in an order with little to wait for.
  const FloatLanes square = r * r;
  const FloatLanes upper = 0.00278690898F * r + 0.0167275537F;
  const FloatLanes lower = 0.0833329112F * r + 0.333331466F;
  const FloatLanes fit = (upper * square + lower) * r + 1.0F;
  const FloatLanes twice = fit * square + (r + r) + 2.0F;
  // Half the power of 2: the whole may be too large, though the result is not.
  return twice * BitCast<FloatLanes>(WordLanes{BitCast<WordLanes>(shifted) << 23});
}

}  // namespace
}  // namespace acl_host
