// Nanoseconds of a warm allocation and its release: the memory pool, malloc and aclrtMalloc, in one run.
// Usage: pool LIBRARY
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "acl_library.h"
#include "memory_pool.h"

namespace {

using aclgrad::AclLibrary;
using aclgrad::MemoryPool;
using aclgrad::PoolBlock;
using Clock = std::chrono::steady_clock;

// The sizes that a small call and a large one allocate, in turns, while other blocks are held.
constexpr std::array<std::size_t, 6> kSizes{3'136, 12'544, 16'384, 1'000'000, 6'422'528, 102'760'448};
constexpr std::size_t kHeld = 64;
constexpr int kRounds = 200'000;
constexpr std::size_t kPoolBytes = std::size_t{8} << 30;

struct Times {
  double median;
  double p99;
};

Times Measure(int rounds, const std::function<void(std::size_t)>& pair) {
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(rounds));
  for (int round = -rounds / 10; round < rounds; ++round) {
    const std::size_t size = kSizes[static_cast<std::size_t>(round + rounds) % kSizes.size()];
    const auto start = Clock::now();
    pair(size);
    const std::chrono::duration<double, std::nano> time = Clock::now() - start;
    if (round >= 0) times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() * 99 / 100]};
}

void Print(const char* name, const Times& times) {
  std::printf("%-12s %10.0f %10.0f\n", name, times.median, times.p99);
}

}  // namespace

int main(int, char** arguments) {
  const auto library =
      std::make_shared<AclLibrary>(std::vector<aclgrad::LibraryFile>{{arguments[1], true}}, std::nullopt);
  const AclLibrary& acl = *library;
  acl.Check(acl->aclrtSetDevice(0), "aclrtSetDevice");
  aclrtStream stream = nullptr;
  acl.Check(acl->aclrtCreateStream(&stream), "aclrtCreateStream");
  std::printf("%-12s %10s %10s  (ns for one allocation and its release)\n", "", "median", "p99");
  {
    MemoryPool pool(acl, aclgrad::DeviceMemorySource(acl, false), {kPoolBytes});
    std::vector<PoolBlock> held;
    for (std::size_t i = 0; i < kHeld; ++i) held.push_back(pool.Allocate(kSizes[i % 4], stream));
    // Releases every other block, so that the pool has free blocks to choose from.
    for (std::size_t i = 0; i < kHeld; i += 2) held[i] = {};
    Print("(the clock)", Measure(kRounds, [](std::size_t) {}));
    Print("pool", Measure(kRounds, [&](std::size_t size) { static_cast<void>(pool.Allocate(size, stream)); }));
  }
  Print("malloc", Measure(kRounds, [](std::size_t size) {
          void* volatile block = std::malloc(size);
          std::free(block);
        }));
  Print("aclrtMalloc", Measure(kRounds / 20, [&](std::size_t size) {
          void* block = nullptr;
          acl.Check(acl->aclrtMalloc(&block, size, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
          acl.Check(acl->aclrtFree(block), "aclrtFree");
        }));
  acl.Check(acl->aclrtDestroyStream(stream), "aclrtDestroyStream");
}
