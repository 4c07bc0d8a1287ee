#include "memory_pool.h"

#include <algorithm>
#include <utility>

#include "error.h"

namespace aclgrad {
namespace {

// CANN's own caching allocator pads and rounds so: kernels may touch up to 32 bytes beyond a tensor.
constexpr std::size_t kPadding = 32;
constexpr std::size_t kGranule = 512;
constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::size_t kSmallSize = kMebibyte;
constexpr std::size_t kSmallSegment = 2 * kMebibyte;
constexpr std::size_t kMediumSize = 10 * kMebibyte;
constexpr std::size_t kMediumSegment = 20 * kMebibyte;
constexpr std::size_t kLargeStep = 2 * kMebibyte;

std::size_t RoundUp(std::size_t size, std::size_t step) { return (size + step - 1) / step * step; }

std::size_t SegmentSize(std::size_t size) {
  if (size <= kSmallSize) return kSmallSegment;
  return size < kMediumSize ? kMediumSegment : RoundUp(size, kLargeStep);
}

}  // namespace

MemorySource DeviceMemorySource(const AclLibrary& library) {
  return {[&library](void** address, std::size_t size) {
            return library->aclrtMalloc(address, size, ACL_MEM_MALLOC_HUGE_FIRST);
          },
          [&library](void* address) { return library->aclrtFree(address); }};
}

MemorySource PinnedMemorySource(const AclLibrary& library) {
  return {[&library](void** address, std::size_t size) { return library->aclrtMallocHost(address, size); },
          [&library](void* address) { return library->aclrtFreeHost(address); }};
}

PoolBlock::~PoolBlock() { ReleaseOn(nullptr); }

PoolBlock::PoolBlock(PoolBlock&& other) noexcept { *this = std::move(other); }

PoolBlock& PoolBlock::operator=(PoolBlock&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(block_, other.block_);
  return *this;
}

void PoolBlock::ReleaseOn(aclrtStream stream) noexcept {
  if (block_ != nullptr) pool_->Release(std::exchange(block_, nullptr), stream);
}

MemoryPool::MemoryPool(const AclLibrary& library, MemorySource source, const PoolOptions& options)
    : library_(library), source_(std::move(source)), options_(options) {
  statistics_.limit_bytes = options.limit_bytes;
}

MemoryPool::~MemoryPool() {
  // By now no stream works on anything: a device waits for its streams before it lets go of its pool.
  for (auto& [key, list] : free_) {
    for (Block* block : list.blocks()) {
      if (block->is_segment()) static_cast<void>(source_.release(block->address));
    }
  }
}

PoolBlock MemoryPool::Allocate(std::size_t size_bytes, aclrtStream stream) {
  if (size_bytes == 0) return {};
  std::unique_lock lock(mutex_);
  ++statistics_.allocation_count;
  if (size_bytes > options_.limit_bytes) {
    ++statistics_.out_of_memory_count;
    throw OutOfMemory(size_bytes, statistics_.allocated_bytes, options_.limit_bytes, "");
  }
  const std::size_t size = options_.pass_through ? size_bytes : RoundUp(size_bytes + kPadding, kGranule);
  const bool is_small = size <= kSmallSize;
  Block* block = FindOrReserve(size, is_small, stream);
  if (block == nullptr) {
    // Without the lock, for it gives blocks back.
    lock.unlock();
    options_.reclaim(stream);
    lock.lock();
    TrimLocked();
    refusal_.clear();
    block = FindOrReserve(size, is_small, stream);
    if (block == nullptr) {
      ++statistics_.out_of_memory_count;
      throw OutOfMemory(size_bytes, statistics_.allocated_bytes, options_.limit_bytes, refusal_);
    }
    ++statistics_.retry_count;
  }
  block->is_free = false;
  if (!options_.pass_through) SplitOff(block, size);
  block->stream = nullptr;
  statistics_.allocated_bytes += block->size;
  statistics_.active_bytes += block->size;
  statistics_.peak_allocated_bytes = std::max(statistics_.peak_allocated_bytes, statistics_.allocated_bytes);
  return {this, block};
}

void MemoryPool::Synchronized(aclrtStream stream) {
  const std::lock_guard lock(mutex_);
  for (const bool is_small : {false, true}) {
    const auto found = free_.find({is_small, stream});
    if (stream == nullptr || found == free_.end()) continue;
    const FreeList blocks = std::move(found->second);
    free_.erase(found);
    for (Block* block : blocks.blocks()) {
      block->stream = nullptr;
      statistics_.active_bytes -= block->size;
    }
    // Only now that all have changed their list may neighbours become one.
    for (Block* block : blocks.blocks()) ListOf(*block).Insert(block);
    std::vector<Block*> to_join(blocks.blocks().begin(), blocks.blocks().end());
    for (Block* block : to_join) {
      // One that was joined to a neighbour on the way is free no more.
      if (!block->is_free) continue;
      ListOf(*block).Remove(block);
      InsertJoined(block);
    }
  }
}

void MemoryPool::Trim() {
  const std::lock_guard lock(mutex_);
  TrimLocked();
}

PoolStatistics MemoryPool::Statistics() const {
  const std::lock_guard lock(mutex_);
  PoolStatistics statistics = statistics_;
  for (const auto& [key, list] : free_) {
    statistics.largest_free_bytes = std::max(statistics.largest_free_bytes, list.largest());
  }
  return statistics;
}

Block* MemoryPool::FindFree(std::size_t size, bool is_small, aclrtStream stream) {
  // First what only this stream can have.
  for (const aclrtStream owner : {stream, aclrtStream{nullptr}}) {
    const auto list = free_.find({is_small, owner});
    if (list == free_.end()) continue;
    if (Block* block = list->second.BestFit(size)) return block;
  }
  return nullptr;
}

Block* MemoryPool::FindOrReserve(std::size_t size, bool is_small, aclrtStream stream) {
  if (options_.pass_through) return Reserve(size, size, is_small);
  if (Block* block = FindFree(size, is_small, stream)) {
    ++statistics_.hit_count;
    ListOf(*block).Remove(block);
    if (block->stream != nullptr) statistics_.active_bytes -= block->size;
    return block;
  }
  if (!is_small) MakeRoom(SegmentSize(size));
  return Reserve(SegmentSize(size), size, is_small);
}

Block* MemoryPool::Reserve(std::size_t segment_size, std::size_t least_size, bool is_small) {
  const std::size_t room = options_.limit_bytes - statistics_.reserved_bytes;
  // Near the limit a segment of the block's own size is better than none.
  if (segment_size > room) segment_size = least_size;
  if (segment_size > room) return nullptr;
  void* address = nullptr;
  const int code = source_.allocate(&address, segment_size);
  if (code == ACL_ERROR_RT_MEMORY_ALLOCATION) {
    const char* detail = library_->aclGetRecentErrMsg();
    refusal_ = detail != nullptr ? detail : "";
    return nullptr;
  }
  library_.Check(code, "aclrtMalloc");
  Block* block = NewBlock();
  block->address = static_cast<std::byte*>(address);
  block->size = segment_size;
  block->is_small = is_small;
  statistics_.reserved_bytes += segment_size;
  statistics_.peak_reserved_bytes = std::max(statistics_.peak_reserved_bytes, statistics_.reserved_bytes);
  return block;
}

void MemoryPool::SplitOff(Block* block, std::size_t size) {
  const std::size_t rest = block->size - size;
  if (block->is_small ? rest < kGranule : rest <= kSmallSize) return;
  Block* remainder = NewBlock();
  // The stream that may still work on the block may work on all of it.
  *remainder = {block->address + size, rest, block, block->behind, block->stream, true, block->is_small};
  if (remainder->stream != nullptr) statistics_.active_bytes += rest;
  if (remainder->behind != nullptr) remainder->behind->before = remainder;
  block->behind = remainder;
  block->size = size;
  ListOf(*remainder).Insert(remainder);
}

void MemoryPool::Release(Block* block, aclrtStream stream) noexcept {
  const std::lock_guard lock(mutex_);
  statistics_.allocated_bytes -= block->size;
  if (stream == nullptr) statistics_.active_bytes -= block->size;
  block->stream = stream;
  InsertJoined(block);
}

// Makes the block free, one with its free neighbours, and gives the segment back if it is more than should be kept.
void MemoryPool::InsertJoined(Block* block) {
  block->is_free = true;
  if (block->joins(block->before)) {
    Block* before = block->before;
    ListOf(*before).Remove(before);
    block->address = before->address;
    block->size += before->size;
    Unlink(before);
  }
  if (block->joins(block->behind)) {
    Block* behind = block->behind;
    ListOf(*behind).Remove(behind);
    block->size += behind->size;
    Unlink(behind);
  }
  const bool is_surplus = options_.pass_through || statistics_.reserved_bytes > options_.high_water_bytes;
  if (is_surplus && block->is_segment() && block->stream == nullptr) {
    GiveBack(block);
  } else {
    ListOf(*block).Insert(block);
  }
}

void MemoryPool::Unlink(Block* block) {
  if (block->before != nullptr) block->before->behind = block->behind;
  if (block->behind != nullptr) block->behind->before = block->before;
  block->is_free = false;
  unused_.push_back(block);
}

void MemoryPool::GiveBack(Block* segment) {
  // What the source will not take back stays counted: it is not there to be handed out again.
  if (source_.release(segment->address) == ACL_SUCCESS) statistics_.reserved_bytes -= segment->size;
  Unlink(segment);
}

void MemoryPool::TrimLocked() {
  for (const bool is_small : {false, true}) {
    FreeList& list = free_[{is_small, nullptr}];
    const std::vector<Block*> blocks(list.blocks().begin(), list.blocks().end());
    for (Block* block : blocks) {
      if (!block->is_segment()) continue;
      list.Remove(block);
      GiveBack(block);
    }
  }
}

void MemoryPool::MakeRoom(std::size_t size) {
  FreeList& list = free_[{false, nullptr}];
  const std::vector<Block*> blocks(list.blocks().rbegin(), list.blocks().rend());
  std::size_t given_back = 0;
  for (Block* block : blocks) {
    if (given_back >= size) return;
    if (!block->is_segment()) continue;
    given_back += block->size;
    list.Remove(block);
    GiveBack(block);
  }
}

Block* MemoryPool::NewBlock() {
  if (unused_.empty()) {
    storage_.push_back(std::make_unique<Block>());
    // So that Unlink, which runs in destructors, never allocates.
    unused_.reserve(storage_.size());
    return storage_.back().get();
  }
  Block* block = unused_.back();
  unused_.pop_back();
  *block = {};
  return block;
}

}  // namespace aclgrad
