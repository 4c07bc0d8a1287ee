// Memory of a device, or pinned memory of the host, cached between calls.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "acl_library.h"
#include "free_list.h"

namespace aclgrad {

struct PoolStatistics {
  std::size_t allocated_bytes = 0;  // held by callers
  std::size_t reserved_bytes = 0;   // what the source charges for the pool's segments
  std::size_t peak_allocated_bytes = 0;
  std::size_t peak_reserved_bytes = 0;
  std::size_t limit_bytes = 0;
  std::size_t largest_free_bytes = 0;
  uint64_t allocation_count = 0;
  uint64_t hit_count = 0;    // served without asking the source
  uint64_t retry_count = 0;  // succeeded only after a trim
  uint64_t out_of_memory_count = 0;
};

struct PoolOptions {
  std::size_t limit_bytes = 0;
  // Free segments are released to the source while more than this is reserved.
  std::size_t high_water_bytes = SIZE_MAX;
  // Free memory of the source that the pool leaves to other users of the device.
  std::size_t spare_bytes = 0;
  // Makes every block an allocation of its own, so that the device library sees each of them.
  bool pass_through = false;
  // Called before a request fails: releases what abandoned work held.
  std::function<void()> reclaim = [] {};
};

// The source of a pool's memory. Functions that return int return ACL codes.
struct MemorySource {
  std::function<int(void**, std::size_t)> allocate;
  std::function<int(void*)> release;
  // Bytes that an allocation of this size takes from the source.
  std::function<std::size_t(std::size_t)> charge = [](std::size_t size) { return size; };
  // Free bytes of the source, counting all of its users. Throws AclError.
  std::function<std::size_t()> free_bytes = [] { return SIZE_MAX; };
  const char* call = "aclrtMalloc";  // the function of the library that allocates
};

// With padding, the device adds to each allocation the bytes that kernels may touch behind a tensor.
[[nodiscard]] MemorySource DeviceMemorySource(const AclLibrary& library, bool padded);
[[nodiscard]] MemorySource PinnedMemorySource(const AclLibrary& library);

class MemoryPool;

// Owns one block and returns it to its pool.
class PoolBlock {
 public:
  PoolBlock() = default;
  PoolBlock(MemoryPool* pool, Block* block) noexcept : pool_(pool), block_(block) {}
  ~PoolBlock();
  PoolBlock(PoolBlock&& other) noexcept;
  PoolBlock& operator=(PoolBlock&& other) noexcept;

  [[nodiscard]] void* address() const noexcept { return block_ != nullptr ? block_->address : nullptr; }
  // At least the requested size.
  [[nodiscard]] std::size_t capacity() const noexcept { return block_ != nullptr ? block_->size : 0; }

 private:
  MemoryPool* pool_ = nullptr;
  Block* block_ = nullptr;
};

// What a part of a block takes of it, with the bytes behind it that kernels may touch.
[[nodiscard]] std::size_t PaddedBytes(std::size_t size_bytes) noexcept;

// A block may be returned only when no stream uses it any more. Sizes and segments are those of CANN's own caching
// allocator. The device's context must be current in every calling thread.
class MemoryPool {
 public:
  MemoryPool(const AclLibrary& library, MemorySource source, const PoolOptions& options);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Size 0 gives an empty block. Throws OutOfMemory, or AclError if the source fails in another way.
  [[nodiscard]] PoolBlock Allocate(std::size_t size_bytes);

  // The same for memory that its user can do without: an empty block if there is no room, or the source refuses. After
  // a refusal, the source is not asked for some time.
  [[nodiscard]] PoolBlock TryAllocate(std::size_t size_bytes);

  // Returns every free segment to the source.
  void Trim();

  [[nodiscard]] PoolStatistics Statistics() const;
  // What the source's last refusal said; empty if it gave memory since, or was never asked.
  [[nodiscard]] std::string Refusal() const;
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return options_.limit_bytes; }

 private:
  friend class PoolBlock;

  using Lock = std::unique_lock<std::mutex>;

  struct Request {
    std::size_t size;  // of the block
    bool is_small;
    std::size_t segment_size;
  };

  [[nodiscard]] Request RequestOf(std::size_t size_bytes) const noexcept;
  [[nodiscard]] FreeList& ListOf(const Block& block) noexcept { return free_[block.is_small]; }
  // A free block, or null. Requires the lock, as all functions below do; those that take it release it meanwhile.
  [[nodiscard]] Block* TakeFree(std::size_t size, bool is_small);
  // A new segment; null if there is no room for one. One thread at a time. Throws AclError.
  [[nodiscard]] Block* Reserve(Lock& lock, const Request& request);
  // A free block or a new segment, or null. One thread at a time. Throws AclError.
  [[nodiscard]] Block* Grow(Lock& lock, const Request& request);
  [[nodiscard]] PoolBlock Hand(Block* block, std::size_t size);
  void SplitOff(Block* block, std::size_t size);
  // Called by destructors, so it allocates nothing.
  void Release(Block* block) noexcept;
  // Returns the segment that is to go back to the source, or null.
  [[nodiscard]] Block* InsertJoined(Block* block) noexcept;
  void Unlink(Block* block) noexcept;
  void FreeSegment(Lock& lock, Block* segment) noexcept;
  // Takes the largest free segment off the list; null if there is none.
  [[nodiscard]] static Block* TakeSegment(FreeList& list) noexcept;
  // Releases every free segment.
  void Trim(Lock& lock);
  // Frees cached segments that are too small for this request; the new, larger one can serve their requests too.
  // Otherwise calls of growing sizes would leave behind segments that fit no call.
  void MakeRoom(Lock& lock, std::size_t size);
  // Reserves the block objects that one allocation needs, so that it cannot fail half-way.
  void KeepBlocks(std::size_t count);
  [[nodiscard]] Block* NewBlock() noexcept;

  const AclLibrary& library_;
  const MemorySource source_;
  const PoolOptions options_;
  // Held by the one thread that asks the source for memory. The source may be slow: other threads get and return blocks
  // meanwhile.
  std::mutex growth_mutex_;
  mutable std::mutex mutex_;      // of everything below; never held during a request to the source
  std::array<FreeList, 2> free_;  // large blocks, small blocks
  std::vector<std::unique_ptr<Block>> storage_;
  std::vector<Block*> unused_;
  PoolStatistics statistics_;
  // Segments on their way back to the source.
  uint64_t releases_begun_ = 0;
  uint64_t releases_ended_ = 0;
  std::condition_variable release_ended_;
  std::string refusal_;                                  // the library's message for the source's last refusal
  std::chrono::steady_clock::time_point asks_again_at_;  // for memory that its user can do without
};

}  // namespace aclgrad
