// Work on a device that its owner may abandon before the device is done with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>

#include "step_watch.h"

namespace aclgrad {

class DeviceWork;

// Abandoned work that the device may not have finished.
struct Abandoned {
  std::unique_ptr<DeviceWork> work;
  Deadline hang_deadline;
};

class DeviceWork {
 public:
  DeviceWork() : place_(1) {}
  virtual ~DeviceWork() = default;
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

  struct State {
    // Whether the device is done with it; until then none of its resources may be released.
    bool is_ended = false;
    // The code that reported a lost device, or 0.
    int lost_code = 0;
  };

  // Waits for the device at most this long; 0 asks once. Consumes the stream's error, so that the next call does not
  // see it.
  [[nodiscard]] virtual State Poll(int32_t timeout_ms) const noexcept = 0;

  // Moves the work to the end of a list, which needs no memory: the device may still write to the work's own. Once.
  static void Abandon(std::unique_ptr<DeviceWork> work, Deadline hang_deadline, std::list<Abandoned>& list) noexcept {
    std::list<Abandoned>& place = work->place_;
    place.front() = {std::move(work), hang_deadline};
    list.splice(list.end(), place);
  }

 private:
  std::list<Abandoned> place_;
};

}  // namespace aclgrad
