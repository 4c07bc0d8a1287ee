#include "device/event.h"

#include <utility>

namespace acl_host {

void Recording::Complete() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (complete_) return;
  time_ = Clock::now();
  complete_ = true;
  completed_.notify_all();
}

bool Recording::IsComplete() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return complete_;
}

bool Recording::Wait(const Deadline& deadline) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return WaitUntil(completed_, lock, deadline, [this] { return complete_; });
}

Clock::time_point Recording::CompletedAt() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return time_;
}

void Event::Record(HostStream& stream) {
  // Completes when its task is destroyed, so that waiters do not wait for ever if the stream drops the task.
  struct Completion {
    explicit Completion(std::shared_ptr<Recording> recording_in) : recording(std::move(recording_in)) {}
    ~Completion() { recording->Complete(); }
    std::shared_ptr<Recording> recording;
  };
  const auto recording = std::make_shared<Recording>(stream.device());
  stream.Enqueue([completion = std::make_shared<Completion>(recording)] { completion->recording->Complete(); });
  const std::lock_guard<std::mutex> lock(mutex_);
  latest_ = recording;
}

void Event::Reset(const std::shared_ptr<Event>& event, HostStream& stream) {
  stream.Enqueue([event, before = event->latest()] {
    const std::lock_guard<std::mutex> lock(event->mutex_);
    if (event->latest_ == before) event->latest_ = nullptr;
  });
}

std::shared_ptr<Recording> Event::latest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return latest_;
}

}  // namespace acl_host
