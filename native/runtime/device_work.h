// Work on a device that its owner may give up before the device is done with it.
#pragma once

#include <cstdint>

namespace aclgrad {

class DeviceWork {
 public:
  virtual ~DeviceWork() = default;

  struct State {
    // Whether the device is done with it; until then nothing of it may be given back.
    bool is_ended = false;
    // The code that told of a lost device, or 0.
    int lost_code = 0;
  };

  // Waits for the device at most so long, and takes the error that its work ended with off the stream: it is nothing
  // to the call that gets the stream next.
  [[nodiscard]] virtual State Settle(int32_t timeout_ms) const noexcept = 0;
};

}  // namespace aclgrad
