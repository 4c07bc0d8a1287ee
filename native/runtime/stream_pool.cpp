#include "stream_pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "error.h"

namespace aclgrad {
namespace {

// Each refusal writes to the device's log, and streams come back when other processes end.
constexpr std::chrono::seconds kRefusalPause{5};

}  // namespace

StreamLease::~StreamLease() {
  if (stream_ != nullptr) pool_->Return(std::move(stream_));
}

StreamPool::StreamPool(const AclLibrary& library, StepWatch& steps, const StreamPoolOptions& options)
    : library_(library), steps_(steps), options_(options) {
  // So that returning a stream, which happens in destructors, never allocates.
  idle_.reserve(options.limit);
  made_.reserve(options.limit);
}

const Stream& StreamPool::MakeFirst() {
  const std::lock_guard lock(mutex_);
  if (made_.empty()) static_cast<void>(Make());
  return *made_.front();
}

StreamLease StreamPool::Lease(Deadline deadline, const std::function<void()>& reclaim) {
  std::unique_lock lock(mutex_);
  if (std::optional<StreamLease> lease = Take()) return std::move(*lease);
  ++waiting_count_;
  const auto no_longer_waiting = [this](void*) { --waiting_count_; };
  const std::unique_ptr<void, decltype(no_longer_waiting)> waiting(this, no_longer_waiting);
  // The end of an abandoned kernel is not reported, so it has to be polled, ever more rarely.
  for (std::chrono::milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const Deadline until = std::min(deadline, Deadline::clock::now() + pause);
    if (!returned_.wait_until(lock, until, [this] { return IsOneFree(); })) {
      lock.unlock();
      try {
        reclaim();
      } catch (...) {
        lock.lock();
        throw;
      }
      lock.lock();
    }
    if (std::optional<StreamLease> lease = Take()) return std::move(*lease);
    if (Deadline::clock::now() < deadline) continue;
    throw NotBegun("the wait for a stream", "all " + std::to_string(made_.size()) + " streams are in use");
  }
}

std::optional<StreamLease> StreamPool::TryLease() {
  const std::lock_guard lock(mutex_);
  if (waiting_count_ != 0) return std::nullopt;
  return Take();
}

bool StreamPool::IsOneFree() const noexcept {
  return !idle_.empty() || (made_.size() < options_.limit && Deadline::clock::now() >= make_again_at_);
}

bool StreamPool::Make() {
  try {
    auto stream = std::make_unique<Stream>(library_, steps_, options_.executor_limit, executors_);
    made_.push_back(stream.get());
    idle_.push_back(std::move(stream));
    return true;
  } catch (const AclError& error) {
    if (error.fault() != FaultClass::kStreams || made_.empty()) throw;
    make_again_at_ = Deadline::clock::now() + kRefusalPause;
    return false;
  }
}

std::optional<StreamLease> StreamPool::Take() {
  if (!IsOneFree() || (idle_.empty() && !Make())) return std::nullopt;
  // The stream returned last: its executors are the warmest.
  std::unique_ptr<Stream> stream = std::move(idle_.back());
  idle_.pop_back();
  return StreamLease(this, std::move(stream));
}

void StreamPool::DropExecutors() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& stream : idle_) stream->executors().Clear();
}

std::size_t StreamPool::stream_count() const {
  const std::lock_guard lock(mutex_);
  return made_.size();
}

std::size_t StreamPool::leased_count() const {
  const std::lock_guard lock(mutex_);
  return made_.size() - idle_.size();
}

void StreamPool::Return(std::unique_ptr<Stream> stream) noexcept {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(stream));
  returned_.notify_one();
}

}  // namespace aclgrad
