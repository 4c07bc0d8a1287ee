// Work on a device that its owner may give up before the device is done with it.
#pragma once

#include <cstdint>

namespace aclgrad {

class DeviceWork {
 public:
  virtual ~DeviceWork() = default;

  // Whether the device may still work for it; unless it is Ended nothing of it may be given back.
  enum class State { kRunning, kEnded, kDeviceLost };

  // Waits for the device at most so long, and takes the error that its work ended with off the stream: it is nothing
  // to the call that gets the stream next.
  [[nodiscard]] virtual State Settle(int32_t timeout_ms) const noexcept = 0;
};

}  // namespace aclgrad
