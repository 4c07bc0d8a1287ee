// Work on a device that its owner may abandon before the device is done with it.
#pragma once

#include <cstdint>

namespace aclgrad {

class DeviceWork {
 public:
  virtual ~DeviceWork() = default;

  struct State {
    // Whether the device is done with it; until then none of its resources may be released.
    bool is_ended = false;
    // The code that reported a lost device, or 0.
    int lost_code = 0;
  };

  // Waits for the device at most this long; 0 asks once. Consumes the stream's error, so that the next call does not
  // see it.
  [[nodiscard]] virtual State Poll(int32_t timeout_ms) const noexcept = 0;
};

}  // namespace aclgrad
