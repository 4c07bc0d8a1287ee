// Whether a device is lost: known to everything that uses the device, whoever met the fault.
#pragma once

#include <atomic>

#include "error.h"

namespace aclgrad {

class DeviceLoss {
 public:
  // Takes the code of a failure. One of FaultClass::kDeviceLost makes the device a lost one, as the second unknown
  // fault without a success in between does. The code of the loss stays: those that follow it tell less.
  void Record(int code) noexcept;

  // Takes note that the device has done a call's work.
  void RecordSuccess() noexcept;

  // Throws AclError if the device is lost: a poisoned context answers in ways that tell nothing, and its memory may be
  // anything.
  void ThrowIfLost() const;

  // Throws the loss instead of an error that does not tell of it: phase 2 and others answer a general code on a
  // poisoned context.
  void ThrowIfLost(const AclError& error) const;

 private:
  std::atomic<int> code_{0};
  std::atomic<bool> has_unknown_fault_{false};
};

}  // namespace aclgrad
