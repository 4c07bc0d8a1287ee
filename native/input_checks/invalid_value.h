// Checks of values that an operator reads as positions. A bad position corrupts a device's memory or ends its context,
// so the checks run on the same bytes that are then copied to the device. Payloads may start at any byte.
#pragma once

#include <stdexcept>

namespace aclgrad {

// A value that must not reach a device; the message gives its position and the legal range.
class InvalidValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace aclgrad
