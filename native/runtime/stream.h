// One stream of a device, with its own cache of executors.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "acl_library.h"
#include "device_work.h"
#include "executor_cache.h"
#include "fault_class.h"
#include "step_watch.h"

namespace aclgrad {

// A query costs the device nothing, while a wait that times out writes to the device's log: abandoned work is polled
// by queries, ever more rarely.
inline constexpr std::chrono::milliseconds kFirstPause{1};
inline constexpr std::chrono::milliseconds kLongestPause{50};

// Alignment of both addresses of an asynchronous copy. CANN requires it up to 8.3; later releases do not say.
inline constexpr std::size_t kCopyAlignment = 64;

// The time left until the deadline, as ACL takes it: at least 1, because 0 is a poll.
[[nodiscard]] int32_t MillisecondsUntil(Deadline deadline);

// Only one call at a time uses a stream, so there is no lock.
class Stream {
 public:
  // Throws AclError if the device cannot make a stream.
  Stream(const AclLibrary& library, StepWatch& steps, std::size_t executor_limit, ExecutorCounters& executor_counters);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] aclrtStream get() const noexcept { return stream_; }
  [[nodiscard]] ExecutorCache& executors() noexcept { return executors_; }

  // Whether the stream, and with it its whole context, stops at its first fault. Then every error of a wait is a lost
  // device; otherwise the stream reports it once, and the tasks behind it run.
  [[nodiscard]] bool stops_at_faults() const noexcept { return stops_at_faults_; }

  // Waits for the stream's work. Throws AclError if it fails, or is not done by the deadline.
  void Wait(Deadline deadline) const;

  // Does not wait; nullopt if the device answers with an error.
  [[nodiscard]] std::optional<bool> IsDone() const noexcept;

  // See DeviceWork::Poll. Polls the stream, so it never makes the device report a wait that timed out.
  [[nodiscard]] DeviceWork::State Poll(int32_t timeout_ms) const noexcept;

 private:
  // Of an error of a wait.
  [[nodiscard]] FaultClass FaultOf(int code) const noexcept;

  const AclLibrary& library_;
  StepWatch& steps_;
  aclrtStream stream_ = nullptr;
  bool stops_at_faults_ = false;
  ExecutorCache executors_;
};

}  // namespace aclgrad
