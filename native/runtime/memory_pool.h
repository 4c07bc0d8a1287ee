// Device memory for tensors and workspaces, cached between calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "acl_library.h"

namespace aclgrad {

struct PoolStatistics {
  std::size_t allocated_bytes = 0;  // in the hands of callers
  std::size_t reserved_bytes = 0;   // held of the device, allocated or cached
  std::size_t peak_allocated_bytes = 0;
  std::size_t peak_reserved_bytes = 0;
  std::size_t limit_bytes = 0;
  uint64_t allocation_count = 0;
  uint64_t hit_count = 0;    // served from the cache
  uint64_t retry_count = 0;  // succeeded only after a trim
  uint64_t out_of_memory_count = 0;
};

class MemoryPool;

// Owns one block and gives it back to its pool.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  DeviceBlock(MemoryPool* pool, void* address, std::size_t capacity) noexcept;
  ~DeviceBlock();
  DeviceBlock(DeviceBlock&& other) noexcept;
  DeviceBlock& operator=(DeviceBlock&& other) noexcept;

  [[nodiscard]] void* address() const noexcept { return address_; }
  // At least what was asked for.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

 private:
  MemoryPool* pool_ = nullptr;
  void* address_ = nullptr;
  std::size_t capacity_ = 0;
};

// A block is reused as soon as it is given back, by any stream: give it back only when no stream works on it any more.
// The device's context must be current in every calling thread.
class MemoryPool {
 public:
  MemoryPool(const AclLibrary& library, std::size_t limit_bytes);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Size 0 gives an empty block. Throws OutOfMemory, or AclError where the device fails otherwise.
  [[nodiscard]] DeviceBlock Allocate(std::size_t size_bytes);

  // Gives every cached block back to the device.
  void Trim();

  [[nodiscard]] PoolStatistics Statistics() const;

 private:
  friend class DeviceBlock;
  void Release(void* address, std::size_t capacity) noexcept;
  [[nodiscard]] void* TakeCached(std::size_t capacity, std::size_t* found);
  [[nodiscard]] void* Reserve(std::size_t capacity);
  void TrimLocked();

  const AclLibrary& library_;
  mutable std::mutex mutex_;
  std::multimap<std::size_t, void*> cached_;
  PoolStatistics statistics_;
};

}  // namespace aclgrad
