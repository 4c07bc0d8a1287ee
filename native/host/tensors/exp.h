// The exponential function of float32, without branches or calls: the compiler vectorises loops over it, and it has the
// same bits at every vector level. Its relative error is below 2^-22.
#pragma once

#include <cstdint>

#include "tensors/half.h"

namespace acl_host {

// Of any number: infinity above the largest float, smaller and smaller subnormals below the least normal one, and NaN.
[[nodiscard]] inline float Exp(float x) {
  constexpr float kLog2E = 1.44269504F;
  // ln(2) in two parts, of which the first times any exponent is exact.
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  // Beyond these the result is 0 or infinity.
  constexpr float kLeast = -105.0F;
  constexpr float kMost = 90.0F;
  // Adding it rounds to an integer, which then is in the last bits.
  constexpr float kShift = 12582912.0F;
  const float above = x < kLeast ? kLeast : x;
  const float bounded = above > kMost ? kMost : above;
  const float shifted = bounded * kLog2E + kShift;
  const float exponent = shifted - kShift;
  const float r = (bounded - exponent * kLn2High) - exponent * kLn2Low;
  // Cephes' polynomial for (exp(r) - 1 - r) / r^2.
  float fit = 1.9875691500E-4F;
  fit = fit * r + 1.3981999507E-3F;
  fit = fit * r + 8.3334519073E-3F;
  fit = fit * r + 4.1665795894E-2F;
  fit = fit * r + 1.6666665459E-1F;
  fit = fit * r + 5.0000001201E-1F;
  // The power of 2 in two factors: alone it may be no normal number.
  const int32_t power = static_cast<int32_t>(BitsOf(shifted) - BitsOf(kShift));
  const int32_t half = power >> 1;
  const auto factor = [](int32_t of) { return FloatOf(static_cast<uint32_t>(of + 127) << 23); };
  return (fit * (r * r) + r + 1.0F) * factor(half) * factor(power - half);
}

}  // namespace acl_host
