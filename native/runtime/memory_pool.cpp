#include "memory_pool.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "error.h"

namespace aclgrad {
namespace {

// CANN's own caching allocator pads and rounds so: kernels may touch up to 32 bytes beyond a tensor.
constexpr std::size_t kPadding = 32;
constexpr std::size_t kGranule = 512;
constexpr std::size_t kLargeGranule = std::size_t{2} << 20;
constexpr std::size_t kLargeSize = std::size_t{1} << 20;

std::size_t RoundUp(std::size_t size_bytes) {
  const std::size_t granule = size_bytes > kLargeSize ? kLargeGranule : kGranule;
  return (size_bytes + kPadding + granule - 1) / granule * granule;
}

}  // namespace

DeviceBlock::DeviceBlock(MemoryPool* pool, void* address, std::size_t capacity) noexcept
    : pool_(pool), address_(address), capacity_(capacity) {}

DeviceBlock::~DeviceBlock() {
  if (pool_ != nullptr) pool_->Release(address_, capacity_);
}

DeviceBlock::DeviceBlock(DeviceBlock&& other) noexcept { *this = std::move(other); }

DeviceBlock& DeviceBlock::operator=(DeviceBlock&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(address_, other.address_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

MemoryPool::MemoryPool(const AclLibrary& library, std::size_t limit_bytes) : library_(library) {
  statistics_.limit_bytes = limit_bytes;
}

MemoryPool::~MemoryPool() { Trim(); }

DeviceBlock MemoryPool::Allocate(std::size_t size_bytes) {
  if (size_bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  ++statistics_.allocation_count;
  if (size_bytes > statistics_.limit_bytes) {
    ++statistics_.out_of_memory_count;
    throw OutOfMemory(size_bytes, statistics_.allocated_bytes, statistics_.limit_bytes, "");
  }
  std::size_t capacity = RoundUp(size_bytes);
  void* address = TakeCached(capacity, &capacity);
  if (address != nullptr) {
    ++statistics_.hit_count;
  } else {
    address = Reserve(capacity);
  }
  statistics_.allocated_bytes += capacity;
  statistics_.peak_allocated_bytes = std::max(statistics_.peak_allocated_bytes, statistics_.allocated_bytes);
  return {this, address, capacity};
}

void MemoryPool::Trim() {
  const std::lock_guard lock(mutex_);
  TrimLocked();
}

PoolStatistics MemoryPool::Statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void MemoryPool::Release(void* address, std::size_t capacity) noexcept {
  const std::lock_guard lock(mutex_);
  statistics_.allocated_bytes -= capacity;
  cached_.emplace(capacity, address);
}

void* MemoryPool::TakeCached(std::size_t capacity, std::size_t* found) {
  const auto best = cached_.lower_bound(capacity);
  // A block of more than twice the size is left for a larger tensor.
  if (best == cached_.end() || best->first / 2 > capacity) return nullptr;
  void* address = best->second;
  *found = best->first;
  cached_.erase(best);
  return address;
}

void* MemoryPool::Reserve(std::size_t capacity) {
  const auto within_limit = [&] { return capacity <= statistics_.limit_bytes - statistics_.reserved_bytes; };
  const auto try_device = [&](void** address) {
    return within_limit() ? library_->aclrtMalloc(address, capacity, ACL_MEM_MALLOC_HUGE_FIRST)
                          : ACL_ERROR_RT_MEMORY_ALLOCATION;
  };
  void* address = nullptr;
  int code = try_device(&address);
  if (code == ACL_ERROR_RT_MEMORY_ALLOCATION) {
    TrimLocked();
    code = try_device(&address);
    if (code == ACL_SUCCESS) ++statistics_.retry_count;
  }
  if (code == ACL_ERROR_RT_MEMORY_ALLOCATION) {
    ++statistics_.out_of_memory_count;
    const char* detail = library_->aclGetRecentErrMsg();
    throw OutOfMemory(capacity, statistics_.allocated_bytes, statistics_.limit_bytes, detail != nullptr ? detail : "");
  }
  library_.Check(code, "aclrtMalloc");
  statistics_.reserved_bytes += capacity;
  statistics_.peak_reserved_bytes = std::max(statistics_.peak_reserved_bytes, statistics_.reserved_bytes);
  return address;
}

void MemoryPool::TrimLocked() {
  for (const auto& [capacity, address] : cached_) {
    // A block that the device will not take back stays counted: it is not there to be handed out again.
    if (library_->aclrtFree(address) == ACL_SUCCESS) statistics_.reserved_bytes -= capacity;
  }
  cached_.clear();
}

}  // namespace aclgrad
