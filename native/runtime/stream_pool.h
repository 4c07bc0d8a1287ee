// The streams of one device, leased one to a call.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "acl_library.h"

namespace aclgrad {

class StreamPool;

// Holds a stream until it goes out of scope.
class StreamLease {
 public:
  StreamLease(StreamPool* pool, aclrtStream stream) noexcept : pool_(pool), stream_(stream) {}
  ~StreamLease();
  StreamLease(const StreamLease&) = delete;
  StreamLease& operator=(const StreamLease&) = delete;

  [[nodiscard]] aclrtStream get() const noexcept { return stream_; }

 private:
  StreamPool* pool_;
  aclrtStream stream_;
};

// Makes streams as they are needed, up to a limit. The device's context must be current in every calling thread.
class StreamPool {
 public:
  StreamPool(const AclLibrary& library, std::size_t limit);
  ~StreamPool();
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  // Waits while all streams are leased. Throws AclError where the device makes none.
  [[nodiscard]] std::unique_ptr<StreamLease> Lease();

  [[nodiscard]] std::size_t stream_count() const;
  [[nodiscard]] std::size_t leased_count() const;

 private:
  friend class StreamLease;
  void Return(aclrtStream stream) noexcept;

  const AclLibrary& library_;
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<aclrtStream> idle_;
  std::size_t stream_count_ = 0;
};

}  // namespace aclgrad
