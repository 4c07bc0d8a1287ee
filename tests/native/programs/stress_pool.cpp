// Many threads share one memory pool. No two of them ever hold the same byte, and the pool's statistics stay exact. One
// thread compares every step with a model.
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

constexpr int kThreads = 8;
constexpr int kStepsPerThread = 400;
constexpr std::size_t kMostHeld = 6;
constexpr std::size_t kMebibyte = std::size_t{1} << 20;
// Less than all threads may request together, so that the pool also has to trim and to refuse.
constexpr std::size_t kLimitBytes = 24 * kMebibyte;

struct Mode {
  const char* name;
  aclgrad::PoolOptions options;
};

const Mode kModes[] = {
    {"pool", {kLimitBytes}},
    {"pool that keeps little", {kLimitBytes, 4 * kMebibyte}},
    {"pass-through", {kLimitBytes, SIZE_MAX, true}},
};

struct Counts {
  std::atomic<uint64_t> allocations{0};
  std::atomic<uint64_t> refusals{0};
};

struct Held {
  PoolBlock block;
  int pattern;
};

std::size_t DrawSize(std::mt19937& random) {
  switch (random() % 8) {
    case 0:
      return random() % (2 * kMebibyte) + 1;
    case 1:
    case 2:
      return random() % (64 << 10) + 1;
    default:
      return random() % 4096 + 1;
  }
}

void Fill(const Held& held) { std::memset(held.block.address(), held.pattern, held.block.capacity()); }

void Check(const Held& held) {
  const auto* bytes = static_cast<const unsigned char*>(held.block.address());
  // All bytes are correct if the first is, and each equals the one before.
  const bool whole = bytes[0] == held.pattern && std::memcmp(bytes, bytes + 1, held.block.capacity() - 1) == 0;
  Expect(whole, "somebody else wrote into a block of " + std::to_string(held.block.capacity()) + " bytes");
}

void Work(MemoryPool& pool, Counts& counts, int thread, int steps) {
  std::mt19937 random(static_cast<uint32_t>(thread));
  std::vector<Held> blocks;
  for (int step = 0; step < steps; ++step) {
    const auto choice = random() % 16;
    if (choice == 1) pool.Trim();
    if (choice < 9 && blocks.size() < kMostHeld) {
      ++counts.allocations;
      try {
        blocks.push_back({pool.Allocate(DrawSize(random)), (thread * 31 + step) & 0xFF});
        Fill(blocks.back());
      } catch (const aclgrad::OutOfMemory&) {
        ++counts.refusals;
      }
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      Check(blocks.back());
      blocks.pop_back();
    }
  }
  for (const Held& held : blocks) Check(held);
}

void Stress(const aclgrad::AclLibrary& library, const Mode& mode, int factor) {
  aclrtContext context = nullptr;
  library.Check(library->aclrtGetCurrentContext(&context), "aclrtGetCurrentContext");
  Counts counts;
  MemoryPool pool(library, aclgrad::DeviceMemorySource(library, mode.options.pass_through), mode.options);
  InThreads(kThreads, [&](int thread) {
    library.Check(library->aclrtSetCurrentContext(context), "aclrtSetCurrentContext");
    Work(pool, counts, thread, kStepsPerThread * factor);
  });
  ExpectEqual("allocated bytes", pool.Statistics().allocated_bytes, 0);
  pool.Trim();
  const aclgrad::PoolStatistics statistics = pool.Statistics();
  ExpectEqual("reserved bytes", statistics.reserved_bytes, 0);
  ExpectEqual("largest free bytes", statistics.largest_free_bytes, 0);
  ExpectEqual("allocations", statistics.allocation_count, counts.allocations);
  ExpectEqual("refused allocations", statistics.out_of_memory_count, counts.refusals);
  Expect(statistics.peak_reserved_bytes <= kLimitBytes, "more was reserved than the limit allows");
}

constexpr std::size_t kModelLimit = 96 * kMebibyte;

// Around the sizes at which the pool takes other segments, and of all kinds.
std::size_t DrawModelSize(std::mt19937& random) {
  constexpr std::size_t kEdges[] = {
      480, 481, kMebibyte - 32, kMebibyte - 31, 10 * kMebibyte - 32, 10 * kMebibyte - 31, kModelLimit, kModelLimit + 1};
  constexpr std::size_t kMost[] = {4096, 2 * kMebibyte, 24 * kMebibyte};
  const auto kind = random() % 4;
  return kind == 3 ? kEdges[random() % std::size(kEdges)] : random() % kMost[kind] + 1;
}

// What callers hold, and what the statistics have to say of it.
struct Model {
  std::vector<PoolBlock> held;
  std::size_t allocated_bytes = 0;
  uint64_t allocations = 0;
  uint64_t refusals = 0;

  void Allocate(MemoryPool& pool, std::size_t size) {
    ++allocations;
    try {
      PoolBlock block = pool.Allocate(size);
      const auto begin = reinterpret_cast<uintptr_t>(block.address());
      Expect(block.capacity() >= size && begin % 64 == 0, "a block is too small or begins anywhere");
      for (const PoolBlock& other : held) {
        const auto there = reinterpret_cast<uintptr_t>(other.address());
        Expect(begin + block.capacity() <= there || there + other.capacity() <= begin, "two blocks overlap");
      }
      allocated_bytes += block.capacity();
      held.push_back(std::move(block));
    } catch (const aclgrad::OutOfMemory& error) {
      ++refusals;
      ExpectEqual("the size of a refusal", error.size_bytes(), size);
      ExpectEqual("the limit of a refusal", error.limit_bytes(), kModelLimit);
    }
  }

  void Release(std::size_t number) {
    if (held.empty()) return;
    std::swap(held[number % held.size()], held.back());
    allocated_bytes -= held.back().capacity();
    held.pop_back();
  }

  void Compare(const aclgrad::PoolStatistics& found) const {
    ExpectEqual("allocated bytes", found.allocated_bytes, allocated_bytes);
    ExpectEqual("allocations", found.allocation_count, allocations);
    ExpectEqual("refused allocations", found.out_of_memory_count, refusals);
    Expect(found.allocated_bytes <= found.reserved_bytes && found.reserved_bytes <= kModelLimit, "reserved bytes");
    Expect(found.peak_allocated_bytes >= found.allocated_bytes, "the peak of allocated bytes");
    Expect(found.peak_reserved_bytes >= found.reserved_bytes, "the peak of reserved bytes");
    Expect(found.largest_free_bytes <= found.reserved_bytes - found.allocated_bytes, "the largest free bytes");
  }
};

void CompareWithModel(const aclgrad::AclLibrary& library, const Mode& mode, int factor) {
  aclgrad::PoolOptions options = mode.options;
  options.limit_bytes = kModelLimit;
  for (int run = 0; run < 60 * factor; ++run) {
    std::mt19937 random(static_cast<uint32_t>(run));
    MemoryPool pool(library, aclgrad::DeviceMemorySource(library, options.pass_through), options);
    Model model;
    for (int step = 0; step < 100; ++step) {
      const auto choice = random() % 8;
      if (choice == 0) pool.Trim();
      if (choice > 3) model.Allocate(pool, DrawModelSize(random));
      if (choice > 0 && choice <= 3) model.Release(random());
      model.Compare(pool.Statistics());
    }
    while (!model.held.empty()) model.Release(0);
    pool.Trim();
    ExpectEqual("reserved bytes", pool.Statistics().reserved_bytes, 0);
    model.Compare(pool.Statistics());
  }
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
      CompareWithModel(library, mode, given.factor);
      Stress(library, mode, given.factor);
    });
    for (Gate Source::* gate : {&Source::allocate, &Source::release, &Source::free_bytes}) {
      AllocateBeside(library, gate);
    }
    WaitForARelease(library);
  });
}

}  // namespace programs
