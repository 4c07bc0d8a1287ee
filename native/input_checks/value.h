// Checks of values that an operator reads as positions. A bad position corrupts a device's memory or ends its context,
// so the checks run on the same bytes that are then copied to the device.
#pragma once

#include <cstddef>
#include <cstring>
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

}  // namespace aclgrad
