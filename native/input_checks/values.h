// Checks of values that an operator reads as positions or as factors. A bad position corrupts a device's memory or ends
// its context, so the checks run on the same bytes that are then copied to the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>

namespace aclgrad {

// A value that must not reach a device; the message gives its position and the legal range.
class InvalidValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Payloads may start at any byte, so values are copied out of them.
template <typename T>
[[nodiscard]] T Load(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

// Throws InvalidValue unless each of count integers, of 4 or 8 bytes each, or of 1 without a sign, is at least 0 and
// below bound, or is the one that is ignored.
void CheckIndices(const void* indices, std::size_t count, std::size_t item_bytes, int64_t bound,
                  std::optional<int64_t> ignored);

// Throws InvalidValue unless each of count bytes is 0 or 1: kernels take a bool for an index or a factor.
void CheckBools(const void* bools, std::size_t count);

// Reciprocals of standard deviations, 1 / sqrt(variance + eps), in float32.
//
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
