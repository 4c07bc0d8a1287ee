// Whether a device is lost: known to everything that uses the device, whoever met the fault.
#pragma once

#include <atomic>

namespace aclgrad {

class DeviceLoss {
 public:
  // Takes any code; one of FaultClass::kDeviceLost makes the device a lost one. The first such code stays: those that
  // follow a loss tell less.
  void Record(int code) noexcept;

  // Throws AclError if the device is lost: a poisoned context answers in ways that tell nothing, and its memory may be
  // anything.
  void ThrowIfLost() const;

 private:
  std::atomic<int> code_{0};
};

}  // namespace aclgrad
