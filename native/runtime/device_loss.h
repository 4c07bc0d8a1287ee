// Whether a device is lost. Shared by everything that uses the device, so that one thread's fault is known to all.
#pragma once

#include <atomic>

#include "error.h"

namespace aclgrad {

class DeviceLoss {
 public:
  // Takes a failure. The device is lost after one of FaultClass::kDeviceLost, or after two unknown faults without a
  // success in between.
  void Record(const AclError& error) noexcept;

  // Takes the code that says that the device is lost, or 0. Later codes do not replace the first, which says more.
  void RecordLoss(int code) noexcept;

  // Records that the device has completed a call.
  void RecordSuccess() noexcept;

  // Throws AclError if the device is lost: the answers of a poisoned context mean nothing, and its memory may hold
  // anything.
  void ThrowIfLost() const;

  // If the device is lost, throws that instead of the given error: after a loss, CANN returns only generic codes.
  void ThrowIfLost(const AclError& error) const;

 private:
  std::atomic<int> code_{0};
  std::atomic<bool> has_unknown_fault_{false};
};

}  // namespace aclgrad
