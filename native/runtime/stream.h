// One stream of a device, with its own workspace, which grows, pinned memory for copies, and cache of executors.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "device_work.h"
#include "executor_cache.h"
#include "memory_pool.h"
#include "step_watch.h"

namespace aclgrad {

// Only one call at a time uses a stream, so there is no lock.
class Stream {
 public:
  // The inputs of most calls, and then their outputs. The copies of larger tensors take milliseconds.
  static constexpr std::size_t kPinnedBytes = std::size_t{4} << 20;

  // Throws AclError if the device cannot make a stream.
  Stream(const AclLibrary& library, MemoryPool& memory, MemoryPool& pinned, StepWatch& steps,
         std::size_t executor_limit, ExecutorCounters& executor_counters);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  [[nodiscard]] aclrtStream get() const noexcept { return stream_; }
  [[nodiscard]] ExecutorCache& executors() noexcept { return executors_; }

  // Device memory of at least this size, reused from the previous call if it is large enough; null for size 0.
  [[nodiscard]] void* Workspace(std::size_t size_bytes);

  // kPinnedBytes of pinned memory, made for the first call that asks and kept.
  [[nodiscard]] std::byte* Pinned();

  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return workspace_.capacity(); }

  // Does not wait; nullopt if the device answers with an error.
  [[nodiscard]] std::optional<bool> IsDone() const noexcept;

  // See DeviceWork::Poll. Polls the stream, so it never makes the device report a wait that timed out.
  [[nodiscard]] DeviceWork::State Poll(int32_t timeout_ms) const noexcept;

  // Gives up the workspace; no work may be under way.
  [[nodiscard]] PoolBlock TakeWorkspace() noexcept { return std::move(workspace_); }

 private:
  const AclLibrary& library_;
  MemoryPool& memory_;
  MemoryPool& pinned_memory_;
  StepWatch& steps_;
  aclrtStream stream_ = nullptr;
  PoolBlock workspace_;
  PoolBlock pinned_;
  ExecutorCache executors_;
};

}  // namespace aclgrad
