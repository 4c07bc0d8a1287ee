// Functions of float32 without branches or calls, so that the compiler vectorises loops over them, and with the same
// bits at every vector level. Their relative errors are a few units in the last place.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensors/half.h"

namespace acl_host {
namespace {

// exp(x) for x <= 0, and 0 where that is below the normal numbers.
inline float ExpOfNegative(float x) {
  constexpr float kLog2E = 1.44269504F;
  // ln(2) in two parts, of which the first times any exponent is exact.
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kLeast = -88.0F;  // below it the power is 2^-127, whose bits are those of 0
  // Adding it rounds to an integer, which then is the last bits.
  constexpr float kShift = 12582912.0F;
  const float bounded = x < kLeast ? kLeast : x;
  const float shifted = bounded * kLog2E + kShift;
  const float exponent = shifted - kShift;
  const float r = (bounded - exponent * kLn2High) - exponent * kLn2Low;
  // A least squares fit of (exp(r) - 1 - r) / r^2.
  float fit = 0.00139345449F;
  fit = fit * r + 0.00836377684F;
  fit = fit * r + 0.0416664556F;
  fit = fit * r + 0.166665733F;
  fit = fit * r + 0.5F;
  const float power = FloatOf((BitsOf(shifted) + 127U) << 23);
  return (fit * (r * r) + r + 1.0F) * power;
}

// x within the bounds; NaN remains.
inline float Bounded(float x, float bound) {
  const float above = x < -bound ? -bound : x;
  return above > bound ? bound : above;
}

// (1 - Phi(x)) / exp(-x^2 / 2) for x from 0 to 20, where Phi is the distribution function of normal numbers.
inline float MillsRatio(float x) {
  constexpr float kCentre = 3.0F;
  const float scale = 1.0F / (x + kCentre);
  const float t = (x - kCentre) * scale;
  // A least squares fit of (x + 3) times the ratio for x up to 14; beyond that the exponential is 0.
  float fit = -0.000284571841F;
  fit = fit * t - 0.000923850865F;
  fit = fit * t + 0.00108944974F;
  fit = fit * t + 0.00694084913F;
  fit = fit * t - 0.0104834381F;
  fit = fit * t - 0.0472601168F;
  fit = fit * t + 0.230019748F;
  fit = fit * t - 0.509332061F;
  fit = fit * t + 0.729083657F;
  return fit * scale;
}

// 1 / (1 + exp(-x)), and one minus that, without cancellation.
struct Sigmoid {
  explicit Sigmoid(float x) {
    const float tail = ExpOfNegative(-std::abs(x));
    const float larger = 1.0F / (1.0F + tail);
    const float smaller = tail * larger;
    value = x < 0 ? smaller : larger;
    complement = x < 0 ? larger : smaller;
  }

  float value;
  float complement;
};

}  // namespace
}  // namespace acl_host
