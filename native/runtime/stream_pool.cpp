#include "stream_pool.h"

namespace aclgrad {

StreamLease::~StreamLease() { pool_->Return(stream_); }

StreamPool::StreamPool(const AclLibrary& library, std::size_t limit) : library_(library), limit_(limit) {
  // So that returning a stream, which happens in destructors, never allocates.
  idle_.reserve(limit);
}

StreamPool::~StreamPool() {
  for (aclrtStream stream : idle_) library_->aclrtDestroyStream(stream);
}

std::unique_ptr<StreamLease> StreamPool::Lease() {
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [this] { return !idle_.empty() || stream_count_ < limit_; });
  aclrtStream stream = nullptr;
  if (idle_.empty()) {
    library_.Check(library_->aclrtCreateStream(&stream), "aclrtCreateStream");
    ++stream_count_;
  } else {
    stream = idle_.back();
    idle_.pop_back();
  }
  return std::make_unique<StreamLease>(this, stream);
}

std::size_t StreamPool::stream_count() const {
  const std::lock_guard lock(mutex_);
  return stream_count_;
}

std::size_t StreamPool::leased_count() const {
  const std::lock_guard lock(mutex_);
  return stream_count_ - idle_.size();
}

void StreamPool::Return(aclrtStream stream) noexcept {
  const std::lock_guard lock(mutex_);
  idle_.push_back(stream);
  returned_.notify_one();
}

}  // namespace aclgrad
