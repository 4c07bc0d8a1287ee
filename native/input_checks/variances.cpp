#include "variances.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "value.h"

namespace aclgrad {

void CheckReciprocals(const void* reciprocals, std::size_t count, const VarianceCheck& check) {
  const double least = 1 / std::sqrt(double{std::numeric_limits<float>::max()});
  const double most = 1 / std::sqrt(check.eps);
  const double above = most * (1 + check.tolerance);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = double{Load<float>(reciprocals, i)};
    if (std::isnan(value) || value == 0 || value == std::numeric_limits<double>::infinity()) continue;
    if (least <= value && value <= above) continue;
    std::ostringstream text;
    text << "has " << value << " at position " << i << ", outside [" << least << ", " << most
         << "], the reciprocals of standard deviations for an eps of " << check.eps;
    throw InvalidValue(text.str());
  }
}

void WriteVariances(const void* reciprocals, std::size_t count, const VarianceCheck& check, void* variances) {
  for (std::size_t i = 0; i < count; ++i) {
    const double value = double{Load<float>(reciprocals, i)};
    const double variance = 1 / (value * value) - check.eps;
    // -eps stays for an infinite reciprocal, which the device takes back as 1 / sqrt(-eps + eps). Not std::max, which
    // would hide a NaN.
    const float rounded = variance < 0 && std::isfinite(value) ? 0.0F : static_cast<float>(variance);
    std::memcpy(static_cast<std::byte*>(variances) + i * sizeof(float), &rounded, sizeof(rounded));
  }
}

}  // namespace aclgrad
