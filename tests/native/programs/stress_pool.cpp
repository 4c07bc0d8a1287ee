// Many threads share one memory pool. No two of them ever hold the same byte, and the pool's statistics stay exact.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>

#include "error.h"
#include "expect.h"
#include "host_library.h"
#include "memory_pool.h"

namespace programs {
namespace {

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
  aclgrad::PoolBlock block;
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

void Work(aclgrad::MemoryPool& pool, Counts& counts, int thread, int steps) {
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

void Run(const aclgrad::AclLibrary& library, const Mode& mode, int factor) {
  aclrtContext context = nullptr;
  library.Check(library->aclrtSetDevice(0), "aclrtSetDevice");
  library.Check(library->aclrtGetCurrentContext(&context), "aclrtGetCurrentContext");
  Counts counts;
  {
    aclgrad::MemoryPool pool(library, aclgrad::DeviceMemorySource(library, mode.options.pass_through), mode.options);
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
  library.Check(library->aclrtResetDevice(0), "aclrtResetDevice");
}

}  // namespace
}  // namespace programs

int main(int argc, char** argv) {
  return programs::RunProgram(argc, argv, [](const std::string& path, int factor) {
    const auto library = programs::OpenHost(path, "{}");
    for (const programs::Mode& mode : programs::kModes) {
      try {
        programs::Run(*library, mode, factor);
      } catch (const std::exception& error) {
        throw std::runtime_error(std::string(mode.name) + ": " + error.what());
      }
    }
  });
}
