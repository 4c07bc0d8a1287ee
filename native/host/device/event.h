// Events: marks in a stream that other streams and the host can wait for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "device/host_stream.h"
#include "device/wait.h"

namespace acl_host {

// One recording of an event. Waiters keep the recording that they began with, so a new recording neither releases them
// nor holds them up.
class Recording {
 public:
  explicit Recording(const HostDevice& device) : device_(device) {}

  [[nodiscard]] const HostDevice& device() const { return device_; }
  void Complete();
  [[nodiscard]] bool IsComplete() const;
  [[nodiscard]] bool Wait(const Deadline& deadline) const;
  [[nodiscard]] Clock::time_point CompletedAt() const;  // requires that it is complete

 private:
  const HostDevice& device_;
  mutable std::mutex mutex_;
  mutable std::condition_variable completed_;
  bool complete_ = false;
  Clock::time_point time_;
};

class Event {
 public:
  explicit Event(bool timed) : timed_(timed) {}

  void Record(HostStream& stream);

  // When the stream gets here, clears the event, unless it has been recorded again.
  static void Reset(const std::shared_ptr<Event>& event, HostStream& stream);

  // Null if never recorded.
  [[nodiscard]] std::shared_ptr<Recording> latest() const;
  [[nodiscard]] bool timed() const { return timed_; }

 private:
  const bool timed_;
  mutable std::mutex mutex_;
  std::shared_ptr<Recording> latest_;
};

}  // namespace acl_host
