// Checks of the values that an operator reads as positions. A bad one corrupts a device's memory or ends its context,
// so these run on the bytes that are copied to the device, before they are. Payloads may start at any byte.
#pragma once

#include <stdexcept>

namespace aclgrad {

// A value that no device may be given; the message says where it stands and what would be legal.
class InvalidValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace aclgrad
