#include "device_loss.h"

#include <string>

namespace aclgrad {

void DeviceLoss::Record(const AclError& error) noexcept {
  const bool is_repeated = IsUnknownDeviceFault(error.code()) && has_unknown_fault_.exchange(true);
  if (is_repeated || error.fault() == FaultClass::kDeviceLost) RecordLoss(error.code());
}

void DeviceLoss::RecordLoss(int code) noexcept {
  int none = 0;
  code_.compare_exchange_strong(none, code);
}

void DeviceLoss::RecordSuccess() noexcept {
  // Usually it is false already, and without a write the threads share the cache line.
  if (has_unknown_fault_) has_unknown_fault_ = false;
}

void DeviceLoss::ThrowIfLost() const {
  if (const int code = code_.load()) {
    throw AclError(code, FaultClass::kDeviceLost, "the device", "it was lost by an earlier call");
  }
}

void DeviceLoss::ThrowIfLost(const AclError& error) const {
  const int code = code_.load();
  if (code == 0 || error.fault() == FaultClass::kDeviceLost) return;
  throw AclError(code, FaultClass::kDeviceLost, "the device", error.what());
}

}  // namespace aclgrad
