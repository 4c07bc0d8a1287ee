// The streams of one device, leased one to a call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "step_watch.h"
#include "stream.h"

namespace aclgrad {

class StreamPool;

// Holds a stream until it goes out of scope.
class StreamLease {
 public:
  StreamLease(StreamPool* pool, std::unique_ptr<Stream> stream) noexcept : pool_(pool), stream_(std::move(stream)) {}
  ~StreamLease();
  StreamLease(StreamLease&&) = default;
  StreamLease& operator=(StreamLease&&) = delete;

  [[nodiscard]] Stream* operator->() const noexcept { return stream_.get(); }
  [[nodiscard]] Stream& operator*() const noexcept { return *stream_; }

 private:
  StreamPool* pool_;
  std::unique_ptr<Stream> stream_;
};

struct StreamPoolOptions {
  std::size_t limit = 0;
  std::size_t executor_limit = 0;  // of each stream's cache; 0 turns it off
};

// Makes streams as they are needed, up to a limit, or up to what the device has: its streams are shared with other
// processes. The device's context must be current in every calling thread.
class StreamPool {
 public:
  StreamPool(const AclLibrary& library, StepWatch& steps, const StreamPoolOptions& options);

  // Makes the first stream, so that calls never find the device without one. Throws AclError if it cannot be made.
  const Stream& MakeFirst();

  // Waits while all streams are leased, and calls reclaim from time to time, which may return some. Throws
  // NotBegun if no stream was returned in time, and AclError if the device fails to make one.
  [[nodiscard]] StreamLease Lease(Deadline deadline, const std::function<void()>& reclaim);

  // Leases without waiting; nullopt if no stream is free or others are waiting.
  [[nodiscard]] std::optional<StreamLease> TryLease();

  // Destroys the executors of idle streams.
  void DropExecutors() noexcept;

  [[nodiscard]] std::size_t stream_count() const;
  [[nodiscard]] std::size_t leased_count() const;
  [[nodiscard]] ExecutorStatistics executor_statistics() const noexcept { return executors_.Statistics(); }

 private:
  friend class StreamLease;
  // The rest require the lock.
  [[nodiscard]] bool IsOneFree() const noexcept;
  // Makes a stream that is idle. Returns false if the device has no more: then those of this pool have to do.
  [[nodiscard]] bool Make();
  // nullopt if no stream is free.
  [[nodiscard]] std::optional<StreamLease> Take();
  void Return(std::unique_ptr<Stream> stream) noexcept;

  const AclLibrary& library_;
  StepWatch& steps_;
  const StreamPoolOptions options_;
  ExecutorCounters executors_;  // of all streams, which end before it
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Stream>> idle_;
  std::vector<Stream*> made_;
  std::size_t waiting_count_ = 0;
  Deadline make_again_at_{};  // after the device has refused a stream
};

}  // namespace aclgrad
