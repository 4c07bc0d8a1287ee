// Many threads share one memory pool. No two of them ever hold the same byte, and the pool's statistics stay exact. One
// thread alone compares them after every step.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <random>

#include "error.h"
#include "host_library.h"
#include "memory_pool.h"
#include "program.h"

namespace programs {
namespace {

using aclgrad::MemoryPool;
using aclgrad::PoolBlock;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
// Less than callers may request together, so that the pool also has to trim and to refuse.
constexpr std::size_t kLimitBytes = 96 * kMebibyte;

struct Mode {
  const char* name;
  aclgrad::PoolOptions options;
};

const Mode kModes[] = {
    {"pool", {kLimitBytes}},
    {"pool that keeps little", {kLimitBytes, 32 * kMebibyte}},
    {"pool that keeps nothing", {kLimitBytes, 0}},
    {"pass-through", {kLimitBytes, SIZE_MAX, true}},
};

// Of all kinds, and around those at which the pool takes other segments.
std::size_t DrawSize(std::mt19937& random) {
  constexpr std::size_t kMost[] = {4096, 64 << 10, 2 * kMebibyte, 24 * kMebibyte};
  constexpr std::size_t kEdges[] = {480, kMebibyte - 32, 10 * kMebibyte - 32, kLimitBytes};
  const auto kind = random() % 5;
  return kind == 4 ? kEdges[random() % std::size(kEdges)] + random() % 2 : random() % kMost[kind] + 1;
}

// What one thread holds, and what it expects of the statistics.
class Caller {
 public:
  Caller(MemoryPool& pool, uint32_t number) : pool_(pool), number_(number), random_(number) {}

  void Step() {
    const auto choice = random_() % 16;
    if (choice == 0) pool_.Trim();
    if (choice < 9) {
      Allocate(DrawSize(random_));
    } else if (!held_.empty()) {
      std::swap(held_[random_() % held_.size()], held_.back());
      Release();
    }
  }

  void ReleaseAll() {
    while (!held_.empty()) Release();
  }

  // If it is the only caller.
  void Compare() const {
    const aclgrad::PoolStatistics found = pool_.Statistics();
    ExpectEqual("allocated bytes", found.allocated_bytes, allocated_bytes_);
    ExpectEqual("allocations", found.allocation_count, allocations_);
    ExpectEqual("refused allocations", found.out_of_memory_count, refusals_);
    Expect(found.allocated_bytes <= found.reserved_bytes && found.reserved_bytes <= kLimitBytes, "reserved bytes");
    Expect(found.peak_allocated_bytes >= found.allocated_bytes, "the peak of allocated bytes");
    Expect(found.peak_reserved_bytes >= found.reserved_bytes, "the peak of reserved bytes");
    Expect(found.largest_free_bytes <= found.reserved_bytes - found.allocated_bytes, "the largest free bytes");
  }

  [[nodiscard]] uint64_t allocations() const { return allocations_; }
  [[nodiscard]] uint64_t refusals() const { return refusals_; }

 private:
  struct Held {
    PoolBlock block;
    unsigned char pattern;
    std::size_t filled;  // so that large blocks cost little
  };

  void Allocate(std::size_t size) {
    ++allocations_;
    try {
      PoolBlock block = pool_.Allocate(size);
      const auto begin = reinterpret_cast<uintptr_t>(block.address());
      Expect(block.capacity() >= size && begin % 64 == 0, "a block is too small or begins anywhere");
      for (const Held& other : held_) {
        const auto there = reinterpret_cast<uintptr_t>(other.block.address());
        Expect(begin + block.capacity() <= there || there + other.block.capacity() <= begin, "two blocks overlap");
      }
      allocated_bytes_ += block.capacity();
      const auto pattern = static_cast<unsigned char>(number_ * 31 + allocations_);
      const std::size_t filled = block.capacity() <= kMebibyte ? block.capacity() : 4096;
      std::memset(block.address(), pattern, filled);
      held_.push_back({std::move(block), pattern, filled});
    } catch (const aclgrad::OutOfMemory& error) {
      ++refusals_;
      ExpectEqual("the size of a refusal", error.size_bytes(), size);
      ExpectEqual("the limit of a refusal", error.limit_bytes(), kLimitBytes);
    }
  }

  void Release() {
    const Held& held = held_.back();
    const auto* bytes = static_cast<const unsigned char*>(held.block.address());
    // All bytes are correct if the first is, and each equals the one before.
    const bool whole = bytes[0] == held.pattern && std::memcmp(bytes, bytes + 1, held.filled - 1) == 0;
    Expect(whole, "somebody else wrote into a block of " + std::to_string(held.block.capacity()) + " bytes");
    allocated_bytes_ -= held.block.capacity();
    held_.pop_back();
  }

  MemoryPool& pool_;
  const uint32_t number_;
  std::mt19937 random_;
  std::vector<Held> held_;
  std::size_t allocated_bytes_ = 0;
  uint64_t allocations_ = 0;
  uint64_t refusals_ = 0;
};

void CompareAlone(const aclgrad::AclLibrary& library, const Mode& mode, int factor) {
  for (uint32_t run = 0; run < 25 * static_cast<uint32_t>(factor); ++run) {
    MemoryPool pool(library, aclgrad::DeviceMemorySource(library, mode.options.pass_through), mode.options);
    Caller caller(pool, run);
    for (int step = 0; step < 100; ++step) {
      caller.Step();
      caller.Compare();
    }
    caller.ReleaseAll();
    pool.Trim();
    caller.Compare();
    ExpectEqual("reserved bytes", pool.Statistics().reserved_bytes, 0);
  }
}

void Stress(const aclgrad::AclLibrary& library, const Mode& mode, int factor) {
  aclrtContext context = nullptr;
  library.Check(library->aclrtGetCurrentContext(&context), "aclrtGetCurrentContext");
  std::atomic<uint64_t> allocations{0};
  std::atomic<uint64_t> refusals{0};
  MemoryPool pool(library, aclgrad::DeviceMemorySource(library, mode.options.pass_through), mode.options);
  InThreads(8, [&](int thread) {
    library.Check(library->aclrtSetCurrentContext(context), "aclrtSetCurrentContext");
    Caller caller(pool, static_cast<uint32_t>(thread));
    for (int step = 0; step < 400 * factor; ++step) caller.Step();
    caller.ReleaseAll();
    allocations += caller.allocations();
    refusals += caller.refusals();
  });
  ExpectEqual("allocated bytes", pool.Statistics().allocated_bytes, 0);
  pool.Trim();
  const aclgrad::PoolStatistics statistics = pool.Statistics();
  ExpectEqual("reserved bytes", statistics.reserved_bytes, 0);
  ExpectEqual("largest free bytes", statistics.largest_free_bytes, 0);
  ExpectEqual("allocations", statistics.allocation_count, allocations);
  ExpectEqual("refused allocations", statistics.out_of_memory_count, refusals);
  Expect(statistics.peak_reserved_bytes <= kLimitBytes, "more was reserved than the limit allows");
}

// A source of memory that is slow keeps only those who need it: other threads get and return blocks meanwhile.

// Larger than what is cut from shared segments, so that each is a segment of its own.
constexpr std::size_t kLarge = 30 * kMebibyte;

// Functions of a source wait here once the gate is closed.
class Gate {
 public:
  void Close() { closed_ = true; }
  void Pass() {
    if (!closed_.exchange(false)) return;
    reached_.set_value();
    open_.get_future().wait();
  }
  void AwaitArrival() { reached_.get_future().wait(); }
  void Open() { open_.set_value(); }

 private:
  std::atomic<bool> closed_{false};
  std::promise<void> reached_;
  std::promise<void> open_;
};

struct Source {
  Gate allocate;
  Gate release;
  Gate free_bytes;

  [[nodiscard]] aclgrad::MemorySource Functions() {
    return {[this](void** address, std::size_t size) {
              allocate.Pass();
              *address = ::operator new(size, std::align_val_t{64});
              return 0;
            },
            [this](void* address) {
              release.Pass();
              ::operator delete(address, std::align_val_t{64});
              return 0;
            },
            [](std::size_t size) { return size; },
            [this] {
              free_bytes.Pass();
              return SIZE_MAX;
            }};
  }
};

// What threads do that need nothing from the source.
void UseCachedBlocks(MemoryPool& pool) {
  std::vector<PoolBlock> blocks;
  for (int number = 0; number < 10; ++number) blocks.push_back(pool.Allocate(1000));
  blocks.clear();
  static_cast<void>(pool.Statistics());
}

void AllocateBeside(const aclgrad::AclLibrary& library, Gate Source::* gate) {
  Source source;
  aclgrad::PoolOptions options;
  options.limit_bytes = 100 * kMebibyte;
  options.high_water_bytes = 0;
  MemoryPool pool(library, source.Functions(), options);
  const PoolBlock kept = pool.Allocate(1000);  // so that its segment stays
  PoolBlock released = pool.Allocate(kLarge);
  (source.*gate).Close();
  auto slow = std::async(std::launch::async, [&] {
    released = {};
    return pool.Allocate(2 * kLarge);
  });
  (source.*gate).AwaitArrival();
  UseCachedBlocks(pool);
  (source.*gate).Open();
  Expect(slow.get().capacity() >= 2 * kLarge, "the slow allocation has no block");
}

// There is room as soon as the source has taken back what another thread returns.
void WaitForARelease(const aclgrad::AclLibrary& library) {
  Source source;
  aclgrad::PoolOptions options;
  options.limit_bytes = 50 * kMebibyte;
  options.high_water_bytes = 0;
  MemoryPool pool(library, source.Functions(), options);
  PoolBlock released = pool.Allocate(kLarge);
  source.release.Close();
  auto slow = std::async(std::launch::async, [&] { released = {}; });
  source.release.AwaitArrival();
  source.free_bytes.Close();
  auto waiting = std::async(std::launch::async, [&] { return pool.Allocate(kLarge); });
  source.free_bytes.AwaitArrival();
  source.free_bytes.Open();
  source.release.Open();
  slow.get();
  Expect(waiting.get().capacity() >= kLarge, "an allocation did not wait for a release");
  try {
    const PoolBlock first = pool.Allocate(kLarge);
    static_cast<void>(pool.Allocate(kLarge));
    Expect(false, "a block beyond the limit");
  } catch (const aclgrad::OutOfMemory&) {
  }
}

}  // namespace

void Run(const Arguments& given) {
  OnSetDevice(given.library, [&](const aclgrad::AclLibrary& library) {
    InModes(kModes, [&](const Mode& mode) {
      CompareAlone(library, mode, given.factor);
      Stress(library, mode, given.factor);
    });
    for (Gate Source::* gate : {&Source::allocate, &Source::release, &Source::free_bytes}) {
      AllocateBeside(library, gate);
    }
    WaitForARelease(library);
  });
}

}  // namespace programs
