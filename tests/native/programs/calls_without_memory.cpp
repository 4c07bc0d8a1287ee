// Calls whose process runs out of memory at any moment, on a strict device: no execution ends while its kernel runs.
// Blocks return to their pool, which happens in destructors, without memory.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "host_library.h"
#include "memory_pool.h"
#include "program.h"
#include "sample_calls.h"

namespace {

// The runtime is a part of the program; the libraries behind the ABI are not, and keep their memory.
extern "C" const char __executable_start;
extern "C" const char etext;

thread_local int allocations_left = -1;  // without a limit if negative

bool IsRefused(const void* caller) {
  const auto* const address = static_cast<const char*>(caller);
  if (allocations_left < 0 || address < &__executable_start || address >= &etext) return false;
  if (allocations_left == 0) return true;
  --allocations_left;
  return false;
}

void* Allocate(std::size_t size, std::size_t alignment, const void* caller) {
  const std::size_t rounded = (size + alignment) / alignment * alignment;
  void* address = IsRefused(caller) ? nullptr : std::aligned_alloc(alignment, rounded);
  if (address == nullptr) throw std::bad_alloc();
  return address;
}

}  // namespace

// Not inlined: the caller has to be that of new, and compilers report a malloc without its free.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return Allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
[[gnu::noinline]] void operator delete(void* address) noexcept { std::free(address); }
[[gnu::noinline]] void operator delete(void* address, std::size_t) noexcept { std::free(address); }
[[gnu::noinline]] void operator delete(void* address, std::align_val_t) noexcept { std::free(address); }
[[gnu::noinline]] void operator delete(void* address, std::size_t, std::align_val_t) noexcept { std::free(address); }

namespace programs {
namespace {

using aclgrad::Device;

constexpr int32_t kLongMs = 60'000;
constexpr int kMostAllocations = 10'000;
// Kernels are still running when their calls fail.
constexpr const char* kSettings =
    R"({"host_pointers": false, "faults": [{"kind": "hang", "at": 1, "count": 1000000, "duration_ms": 3}]})";

// Does the work with memory for no allocation of the runtime, then for one, and so on until that is enough.
template <typename WorkOfDevice>
void WithoutMemory(Device& device, const WorkOfDevice& work) {
  for (int count = 0;; ++count) {
    Expect(count < kMostAllocations, "the work never has enough memory");
    bool is_done = false;
    allocations_left = count;
    try {
      is_done = work();
    } catch (const std::bad_alloc&) {
    }
    const bool was_enough = allocations_left > 0;
    allocations_left = -1;
    AwaitIdle(device);
    if (!was_enough) continue;
    Expect(is_done, "work with enough memory failed");
    return;
  }
}

bool CallGroup(Device& device, aclgrad::Group& group) {
  const std::atomic<bool> is_cancelled{false};
  for (aclgrad::GroupStep& each : group.steps) each.error = nullptr;
  device.ExecuteGroup(group, 3, After(kLongMs), After(kLongMs), is_cancelled);
  return std::all_of(group.steps.begin(), group.steps.end(),
                     [](const aclgrad::GroupStep& each) { return each.error == nullptr; });
}

bool CopyPieces(Device& device) {
  const Bytes piece(std::size_t{3} << 20);
  Bytes read(piece.size());
  const aclgrad::StagingHandle staging = device.Stage(piece.size(), aclgrad::Staging::Memory::kDevice, nullptr);
  staging->Write(0, piece.data(), piece.size(), After(kLongMs));
  staging->Read(0, read.data(), read.size(), After(kLongMs));
  return read == piece;
}

void RunOut(const std::string& path, const std::vector<SampleCall>& calls, std::size_t executor_limit) {
  aclgrad::DeviceOptions options;
  options.pool_limit_bytes = std::size_t{64} << 20;
  // Memory that comes back too early is freed at once, which the strict library sees.
  options.pool_pass_through = true;
  options.stream_limit = 3;
  options.executor_limit = executor_limit;
  Device device(OpenHost(path, kSettings), 0, options);
  std::vector<std::shared_ptr<OwnedCall>> owned;
  for (std::size_t i = 0; i < 4; ++i) owned.push_back(calls[i].Make());
  WithoutMemory(device, [&] {
    device.Execute({owned[0], &owned[0]->call}, After(kLongMs));
    return true;
  });
  for (const std::size_t lane_steps : {1, 3}) {
    aclgrad::Group group = GroupOf(owned, lane_steps);
    WithoutMemory(device, [&] { return CallGroup(device, group); });
  }
  WithoutMemory(device, [&] { return CopyPieces(device); });
}

void ReleaseAll(const aclgrad::AclLibrary& library) {
  aclgrad::MemoryPool pool(library, aclgrad::DeviceMemorySource(library, false), {std::size_t{64} << 20});
  std::vector<aclgrad::PoolBlock> blocks;
  for (std::size_t i = 0; i < 100; ++i) blocks.push_back(pool.Allocate(1000 * (i + 1)));
  allocations_left = 0;
  // Every other block first, so that they do not all join into one.
  for (std::size_t i = 0; i < blocks.size(); i += 2) blocks[i] = {};
  blocks.clear();
  allocations_left = -1;
  ExpectEqual("allocated bytes", pool.Statistics().allocated_bytes, 0);
}

}  // namespace

void Run(const Arguments& given) {
  const std::vector<SampleCall> calls = ReadCalls(given.calls);
  for (const std::size_t executor_limit : {0, 2}) RunOut(StrictBeside(given.library), calls, executor_limit);
  OnSetDevice(given.library, ReleaseAll);
}

}  // namespace programs
