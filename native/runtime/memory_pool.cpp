#include "memory_pool.h"

#include <algorithm>
#include <utility>

#include "error.h"
#include "thread_error.h"

namespace aclgrad {
namespace {

// CANN's own caching allocator uses the same: kernels may touch up to 32 bytes beyond a tensor.
constexpr std::size_t kPadding = 32;
// The device's allocation granularity.
constexpr std::size_t kCharge = 32;
constexpr std::size_t kGranule = 512;
constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::size_t kSmallSize = kMebibyte;
constexpr std::size_t kSmallSegment = 2 * kMebibyte;
constexpr std::size_t kMediumSize = 10 * kMebibyte;
constexpr std::size_t kMediumSegment = 20 * kMebibyte;
constexpr std::size_t kLargeStep = 2 * kMebibyte;
// A host that may not pin more memory refuses for long, and each refusal writes to CANN's log.
constexpr std::chrono::seconds kPauseAfterRefusal{10};

std::size_t RoundUp(std::size_t size, std::size_t step) { return (size + step - 1) / step * step; }

std::size_t SegmentSize(std::size_t size) {
  if (size <= kSmallSize) return kSmallSegment;
  return size < kMediumSize ? kMediumSegment : RoundUp(size, kLargeStep);
}

}  // namespace

MemorySource DeviceMemorySource(const AclLibrary& library, bool padded) {
  const bool is_exact = !padded && library->aclrtMallocAlign32 != nullptr;
  const auto allocate = is_exact ? library->aclrtMallocAlign32 : library->aclrtMalloc;
  return {[allocate](void** address, std::size_t size) { return allocate(address, size, ACL_MEM_MALLOC_HUGE_FIRST); },
          [&library](void* address) { return library->aclrtFree(address); },
          [is_exact](std::size_t size) { return RoundUp(size, kCharge) + (is_exact ? 0 : kCharge); }};
}

MemorySource PinnedMemorySource(const AclLibrary& library) {
  return {[&library](void** address, std::size_t size) { return library->aclrtMallocHost(address, size); },
          [&library](void* address) { return library->aclrtFreeHost(address); }, MemorySource().charge,
          MemorySource().free_bytes, "aclrtMallocHost"};
}

PoolBlock::~PoolBlock() {
  if (block_ != nullptr) pool_->Release(block_);
}

PoolBlock::PoolBlock(PoolBlock&& other) noexcept { *this = std::move(other); }

PoolBlock& PoolBlock::operator=(PoolBlock&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(block_, other.block_);
  return *this;
}

MemoryPool::MemoryPool(const AclLibrary& library, MemorySource source, const PoolOptions& options)
    : library_(library), source_(std::move(source)), options_(options) {
  statistics_.limit_bytes = options.limit_bytes;
}

MemoryPool::~MemoryPool() {
  // No stream uses the memory any more: a device waits for its streams before it destroys its pool.
  for (const FreeList& list : free_) {
    for (const Block* block : list.blocks()) {
      if (block->is_segment()) library_.Ignore(source_.release(block->address));
    }
  }
}

std::size_t PaddedBytes(std::size_t size_bytes) noexcept { return RoundUp(size_bytes + kPadding, kGranule); }

MemoryPool::Request MemoryPool::RequestOf(std::size_t size_bytes) const noexcept {
  const std::size_t size = options_.pass_through ? size_bytes : PaddedBytes(size_bytes);
  return {size, size <= kSmallSize, options_.pass_through ? size : SegmentSize(size)};
}

PoolBlock MemoryPool::TryAllocate(std::size_t size_bytes) {
  if (size_bytes == 0 || size_bytes > options_.limit_bytes) return {};
  const Request request = RequestOf(size_bytes);
  {
    const std::lock_guard lock(mutex_);
    ++statistics_.allocation_count;
    if (Block* block = TakeFree(request.size, request.is_small)) return Hand(block, request.size);
    if (std::chrono::steady_clock::now() < asks_again_at_) return {};
  }
  const std::lock_guard growth(growth_mutex_);
  Lock lock(mutex_);
  Block* block = Grow(lock, request);
  if (block == nullptr) {
    // Free segments for requests of other sizes may take all of the limit.
    const std::size_t reserved_bytes = statistics_.reserved_bytes;
    Trim(lock);
    if (statistics_.reserved_bytes < reserved_bytes) block = Grow(lock, request);
  }
  return block == nullptr ? PoolBlock() : Hand(block, request.size);
}

PoolBlock MemoryPool::Allocate(std::size_t size_bytes) {
  if (size_bytes == 0) return {};
  const Request request = RequestOf(size_bytes);
  {
    const std::lock_guard lock(mutex_);
    ++statistics_.allocation_count;
    if (size_bytes > options_.limit_bytes) {
      ++statistics_.out_of_memory_count;
      throw OutOfMemory(size_bytes, statistics_.allocated_bytes, options_.limit_bytes, "");
    }
    if (Block* block = TakeFree(request.size, request.is_small)) return Hand(block, request.size);
  }
  const std::lock_guard growth(growth_mutex_);
  Lock lock(mutex_);
  Block* block = Grow(lock, request);
  if (block == nullptr) {
    // Without the lock, because it releases blocks.
    lock.unlock();
    options_.reclaim();
    lock.lock();
    Trim(lock);
    for (;;) {
      refusal_.clear();
      const uint64_t ended = releases_ended_;
      block = TakeFree(request.size, request.is_small);
      if (block == nullptr) block = Reserve(lock, request);
      if (block != nullptr) break;
      if (ended == releases_ended_ && releases_begun_ == ended) {
        ++statistics_.out_of_memory_count;
        throw OutOfMemory(size_bytes, statistics_.allocated_bytes, options_.limit_bytes, refusal_);
      }
      // Another thread is giving a segment back, which counts until the source has it.
      release_ended_.wait(lock, [&] { return releases_ended_ != ended; });
    }
    ++statistics_.retry_count;
  }
  return Hand(block, request.size);
}

Block* MemoryPool::Grow(Lock& lock, const Request& request) {
  // What the last thread reserved may have room for this block too.
  if (Block* block = TakeFree(request.size, request.is_small)) return block;
  if (!options_.pass_through && !request.is_small) MakeRoom(lock, request.segment_size);
  return Reserve(lock, request);
}

PoolBlock MemoryPool::Hand(Block* block, std::size_t size) {
  block->is_free = false;
  if (!options_.pass_through) SplitOff(block, size);
  statistics_.allocated_bytes += block->size;
  statistics_.peak_allocated_bytes = std::max(statistics_.peak_allocated_bytes, statistics_.allocated_bytes);
  return {this, block};
}

void MemoryPool::Trim() {
  Lock lock(mutex_);
  Trim(lock);
}

PoolStatistics MemoryPool::Statistics() const {
  const std::lock_guard lock(mutex_);
  PoolStatistics statistics = statistics_;
  for (const FreeList& list : free_) {
    statistics.largest_free_bytes = std::max(statistics.largest_free_bytes, list.largest());
  }
  return statistics;
}

std::string MemoryPool::Refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

Block* MemoryPool::TakeFree(std::size_t size, bool is_small) {
  if (options_.pass_through) return nullptr;
  KeepBlocks(1);  // for the rest of it
  Block* block = free_[is_small].BestFit(size);
  if (block == nullptr) return nullptr;
  ++statistics_.hit_count;
  ListOf(*block).Remove(block);
  return block;
}

Block* MemoryPool::Reserve(Lock& lock, const Request& request) {
  lock.unlock();
  // Asks again: the limit was set earlier, and other processes may have taken memory since.
  const std::size_t free_bytes = source_.free_bytes();
  lock.lock();
  const std::size_t others = free_bytes - std::min(free_bytes, options_.spare_bytes);
  const std::size_t room = std::min(options_.limit_bytes - statistics_.reserved_bytes, others);
  // Near the limit, use a segment of just the block's size.
  const std::size_t segment_size = source_.charge(request.segment_size) > room ? request.size : request.segment_size;
  const std::size_t charge = source_.charge(segment_size);
  if (charge > room) {
    if (room == others) refusal_ = "the device has only " + std::to_string(free_bytes) + " bytes left";
    return nullptr;
  }
  lock.unlock();
  void* address = nullptr;
  const int code = source_.allocate(&address, segment_size);
  if (ClassifyFault(code) == FaultClass::kMemory) {
    std::string text = TakeThreadError(library_.functions(), code, source_.call).text;
    lock.lock();
    refusal_ = std::move(text);
    asks_again_at_ = std::chrono::steady_clock::now() + kPauseAfterRefusal;
    return nullptr;
  }
  library_.Check(code, source_.call);
  lock.lock();
  refusal_.clear();
  asks_again_at_ = {};
  try {
    KeepBlocks(2);  // for the segment, and for the rest of it
  } catch (...) {
    library_.Ignore(source_.release(address));
    throw;
  }
  Block* block = NewBlock();
  block->address = static_cast<std::byte*>(address);
  block->size = segment_size;
  block->is_small = request.is_small;
  statistics_.reserved_bytes += charge;
  statistics_.peak_reserved_bytes = std::max(statistics_.peak_reserved_bytes, statistics_.reserved_bytes);
  return block;
}

void MemoryPool::SplitOff(Block* block, std::size_t size) {
  const std::size_t rest = block->size - size;
  if (block->is_small ? rest < kGranule : rest <= kSmallSize) return;
  Block* remainder = NewBlock();
  remainder->address = block->address + size;
  remainder->size = rest;
  remainder->before = block;
  remainder->behind = block->behind;
  remainder->is_free = true;
  remainder->is_small = block->is_small;
  if (remainder->behind != nullptr) remainder->behind->before = remainder;
  block->behind = remainder;
  block->size = size;
  ListOf(*remainder).Insert(remainder);
}

void MemoryPool::Release(Block* block) noexcept {
  Lock lock(mutex_);
  statistics_.allocated_bytes -= block->size;
  if (Block* surplus = InsertJoined(block)) FreeSegment(lock, surplus);
}

// Frees the block and joins it with its free neighbours. The segment goes back if the pool keeps too much.
Block* MemoryPool::InsertJoined(Block* block) noexcept {
  block->is_free = true;
  if (Block* before = block->before; before != nullptr && before->is_free) {
    ListOf(*before).Remove(before);
    block->address = before->address;
    block->size += before->size;
    Unlink(before);
  }
  if (Block* behind = block->behind; behind != nullptr && behind->is_free) {
    ListOf(*behind).Remove(behind);
    block->size += behind->size;
    Unlink(behind);
  }
  const bool is_surplus = options_.pass_through || statistics_.reserved_bytes > options_.high_water_bytes;
  if (is_surplus && block->is_segment()) return block;
  ListOf(*block).Insert(block);
  return nullptr;
}

void MemoryPool::Unlink(Block* block) noexcept {
  if (block->before != nullptr) block->before->behind = block->behind;
  if (block->behind != nullptr) block->behind->before = block->before;
  block->is_free = false;
  unused_.push_back(block);
}

void MemoryPool::FreeSegment(Lock& lock, Block* segment) noexcept {
  ++releases_begun_;
  lock.unlock();
  const int code = library_.Ignore(source_.release(segment->address));
  lock.lock();
  ++releases_ended_;
  release_ended_.notify_all();
  // If the source fails to release the segment, it stays counted, because the memory is still taken.
  if (code == ACL_SUCCESS) statistics_.reserved_bytes -= source_.charge(segment->size);
  Unlink(segment);
}

Block* MemoryPool::TakeSegment(FreeList& list) noexcept {
  const auto found = std::find_if(list.blocks().rbegin(), list.blocks().rend(),
                                  [](const Block* block) { return block->is_segment(); });
  if (found == list.blocks().rend()) return nullptr;
  Block* segment = *found;
  list.Remove(segment);
  return segment;
}

void MemoryPool::Trim(Lock& lock) {
  for (FreeList& list : free_) {
    while (Block* segment = TakeSegment(list)) FreeSegment(lock, segment);
  }
}

void MemoryPool::MakeRoom(Lock& lock, std::size_t size) {
  for (std::size_t given_back = 0; given_back < size;) {
    Block* segment = TakeSegment(free_[false]);
    if (segment == nullptr) return;
    given_back += segment->size;
    FreeSegment(lock, segment);
  }
}

void MemoryPool::KeepBlocks(std::size_t count) {
  while (unused_.size() < count) {
    storage_.push_back(MakeBlock());
    unused_.reserve(storage_.size());
    unused_.push_back(storage_.back().get());
  }
}

Block* MemoryPool::NewBlock() noexcept {
  Block* block = unused_.back();
  unused_.pop_back();
  BlockSet::node_type node = std::move(block->node);
  *block = {};
  block->node = std::move(node);
  return block;
}

}  // namespace aclgrad
