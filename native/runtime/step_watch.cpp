#include "step_watch.h"

#include <algorithm>

namespace aclgrad {

StepWatch::Step::Step(StepWatch& watch, Deadline deadline) noexcept {
  const int64_t ticks = (deadline + watch.limit_).time_since_epoch().count();
  // Threads start their search at different slots, so that they do not compete for the same ones.
  static std::atomic<std::size_t> thread_count{0};
  thread_local const std::size_t first = thread_count++;
  for (std::size_t i = 0; i < kSlots; ++i) {
    std::atomic<int64_t>& slot = watch.overdue_at_[(first + i) % kSlots];
    int64_t is_free = 0;
    if (slot.load(std::memory_order_relaxed) == 0 && slot.compare_exchange_strong(is_free, ticks)) {
      slot_ = &slot;
      return;
    }
  }
}

StepWatch::Step::~Step() {
  if (slot_ != nullptr) slot_->store(0);
}

bool StepWatch::IsOverdue() const noexcept {
  const int64_t now = Deadline::clock::now().time_since_epoch().count();
  return std::any_of(overdue_at_.begin(), overdue_at_.end(), [now](const std::atomic<int64_t>& slot) {
    const int64_t overdue_at = slot.load(std::memory_order_relaxed);
    return overdue_at != 0 && overdue_at < now;
  });
}

Deadline::duration StepWatch::Oldest() const noexcept {
  Deadline::duration oldest{0};
  for (const std::atomic<int64_t>& slot : overdue_at_) {
    const int64_t overdue_at = slot.load(std::memory_order_relaxed);
    if (overdue_at == 0) continue;
    const Deadline begin = Deadline(Deadline::duration(overdue_at)) - limit_;
    oldest = std::max(oldest, Deadline::clock::now() - begin);
  }
  return oldest;
}

}  // namespace aclgrad
