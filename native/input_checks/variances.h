// Reciprocals of standard deviations, 1 / sqrt(variance + eps), in float32.
#pragma once

#include <cstddef>

namespace aclgrad {

// Every value is from 1 / sqrt(the largest float) to 1 / sqrt(eps), which rounding may exceed by `tolerance` of it; or
// 0, for an infinite variance; or infinite, if it overflowed where it was saved; or NaN. The device reads the values as
// they are, or if they are converted the variances.
struct VarianceCheck {
  double eps;
  double tolerance;
  bool is_converted;
};

// Throws InvalidValue.
void CheckReciprocals(const void* reciprocals, std::size_t count, const VarianceCheck& check);

// Writes the variance of each value, max(1 / value^2 - eps, 0), rounded once to float; -eps if the value is infinite.
void WriteVariances(const void* reciprocals, std::size_t count, const VarianceCheck& check, void* variances);

}  // namespace aclgrad
