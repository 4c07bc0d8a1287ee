#include "device_loss.h"

#include "error.h"

namespace aclgrad {

void DeviceLoss::Record(int code) noexcept {
  int none = 0;
  if (ClassifyFault(code) == FaultClass::kDeviceLost) code_.compare_exchange_strong(none, code);
}

void DeviceLoss::ThrowIfLost() const {
  if (const int code = code_.load()) throw AclError(code, "the device", "it was lost by an earlier call");
}

}  // namespace aclgrad
