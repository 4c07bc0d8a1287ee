// The steps of a device's work (requests to the driver, and waits) that are under way, and when each is overdue.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace aclgrad {

using Deadline = std::chrono::steady_clock::time_point;

// Lock-free, so that a step that hangs inside the driver while it holds locks is still seen.
class StepWatch {
 public:
  // A step of more threads than these may find no slot, and is then not watched.
  StepWatch(std::chrono::milliseconds limit, std::size_t thread_count)
      : slots_(kStepsPerThread * thread_count), limit_(limit) {}

  // Marks a step as under way while it lives.
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

  [[nodiscard]] std::chrono::milliseconds limit() const noexcept { return limit_; }

  // True if a step is overdue.
  [[nodiscard]] bool IsOverdue() const noexcept;

  // How long the oldest step has been under way; for a wait, the time since its deadline. Zero if there is no step. A
  // step is overdue when this exceeds the limit.
  [[nodiscard]] Deadline::duration Oldest() const noexcept;

 private:
  // The launch of a call, and a request to the driver within it.
  static constexpr std::size_t kStepsPerThread = 2;
  // Each has a cache line of its own, because every call writes to its thread's slots several times.
  struct alignas(64) Slot {
    // The time from which the step is overdue, in ticks of the clock; 0 for a free slot.
    std::atomic<int64_t> overdue_at{0};
  };

  std::vector<Slot> slots_;
  const std::chrono::milliseconds limit_;
};

}  // namespace aclgrad
