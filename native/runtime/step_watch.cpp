#include "step_watch.h"

#include <algorithm>

namespace aclgrad {

StepWatch::Step::Step(StepWatch& watch, Deadline deadline) noexcept {
  const int64_t ticks = (deadline + watch.limit_).time_since_epoch().count();
  // Threads start their search at different slots, so that they do not compete for the same ones.
  static std::atomic<std::size_t> thread_count{0};
  thread_local const std::size_t first = kStepsPerThread * thread_count++;
  const std::size_t slot_count = watch.slots_.size();
  for (std::size_t i = 0; i < slot_count; ++i) {
    std::atomic<int64_t>& slot = watch.slots_[(first + i) % slot_count].overdue_at;
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
  return std::any_of(slots_.begin(), slots_.end(), [now](const Slot& slot) {
    const int64_t overdue_at = slot.overdue_at.load(std::memory_order_relaxed);
    return overdue_at != 0 && overdue_at < now;
  });
}

Deadline::duration StepWatch::Oldest() const noexcept {
  Deadline::duration oldest{0};
  for (const Slot& slot : slots_) {
    const int64_t overdue_at = slot.overdue_at.load(std::memory_order_relaxed);
    if (overdue_at == 0) continue;
    const Deadline begin = Deadline(Deadline::duration(overdue_at)) - limit_;
    oldest = std::max(oldest, Deadline::clock::now() - begin);
  }
  return oldest;
}

}  // namespace aclgrad
