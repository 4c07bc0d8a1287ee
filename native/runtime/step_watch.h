// The steps of a device's work (requests to the driver, and waits) that are under way, and when each is overdue.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace aclgrad {

using Deadline = std::chrono::steady_clock::time_point;

// Lock-free, so that a step that hangs inside the driver while it holds locks is still seen.
class StepWatch {
 public:
  explicit StepWatch(std::chrono::milliseconds limit) noexcept : limit_(limit) {}

  // Marks a step as under way while it lives. A step beyond the number of slots is not watched.
  class Step {
   public:
    // A step that does not wait for a kernel: overdue after the watch's limit.
    explicit Step(StepWatch& watch) noexcept : Step(watch, Deadline::clock::now()) {}
    // A wait until the deadline: overdue if it has not ended by the watch's limit after the deadline.
    Step(StepWatch& watch, Deadline deadline) noexcept;
    ~Step();
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    std::atomic<int64_t>* slot_ = nullptr;
  };

  // True if a step is overdue.
  [[nodiscard]] bool IsOverdue() const noexcept;

  // How long the oldest step has been under way; for a wait, the time since its deadline. Zero if there is no step. A
  // step is overdue when this exceeds the limit.
  [[nodiscard]] Deadline::duration Oldest() const noexcept;

 private:
  // More than the threads of a device: 1024 streams and a few that copy.
  static constexpr std::size_t kSlots = 2048;
  // The time from which the step is overdue, in ticks of the clock; 0 for a free slot.
  std::array<std::atomic<int64_t>, kSlots> overdue_at_{};
  const std::chrono::milliseconds limit_;
};

}  // namespace aclgrad
