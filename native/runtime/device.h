// One device: its context, streams and memory, and operators executed on it.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"
#include "execution.h"
#include "memory_pool.h"
#include "stream_pool.h"

namespace aclgrad {

struct DeviceOptions {
  // Bounds the memory pool; without it nine tenths of what is free when the device is opened.
  std::optional<std::size_t> pool_limit_bytes;
  // Bounds the calls that run at once.
  std::size_t stream_limit = 8;
};

struct DeviceMemory {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};

class Device {
 public:
  // Throws AclError where the device cannot be opened.
  Device(std::shared_ptr<const AclLibrary> library, int index, const DeviceOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Copies the inputs to the device, runs the operator and copies the output back. Blocks; any thread may call.
  // Throws AclError (507046 where timeout_ms passed; -1 waits for ever), OutOfMemory, std::out_of_range for an
  // operator that has no row, std::invalid_argument for a call that does not fit the operator's parameters.
  void Execute(const std::string& symbol, const OperatorCall& call, int32_t timeout_ms);

  void Trim();

  [[nodiscard]] int index() const noexcept { return index_; }
  [[nodiscard]] const std::string& soc_name() const noexcept { return soc_name_; }
  [[nodiscard]] PoolStatistics pool_statistics() const { return memory_->Statistics(); }
  [[nodiscard]] std::size_t stream_count() const { return streams_->stream_count(); }
  [[nodiscard]] std::size_t leased_stream_count() const { return streams_->leased_count(); }
  [[nodiscard]] DeviceMemory Memory() const;

 private:
  // ACL's context is a property of the thread, and gRPC's threads come and go.
  void MakeCurrent() const;
  [[nodiscard]] DeviceMemory FreeMemory() const;
  void ReleaseFinished();

  std::shared_ptr<const AclLibrary> library_;
  int index_;
  std::string soc_name_;
  aclrtContext context_ = nullptr;
  std::unique_ptr<MemoryPool> memory_;
  std::unique_ptr<StreamPool> streams_;
  std::mutex quarantine_mutex_;
  // Executions that were given up while the device may still work on their memory.
  std::list<std::unique_ptr<Execution>> quarantine_;
};

}  // namespace aclgrad
