// A source of memory that is slow keeps only those who need it: other threads get and return blocks meanwhile.
#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <vector>

#include "error.h"
#include "expect.h"
#include "host_library.h"
#include "memory_pool.h"

namespace programs {
namespace {

using aclgrad::MemoryPool;
using aclgrad::PoolBlock;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
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

void Check(const aclgrad::AclLibrary& library, Gate Source::* gate) {
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
}  // namespace programs

int main(int argc, char** argv) {
  return programs::RunProgram(argc, argv, [](const std::string& path, int) {
    const auto library = programs::OpenHost(path, "{}");
    for (programs::Gate programs::Source::* gate :
         {&programs::Source::allocate, &programs::Source::release, &programs::Source::free_bytes}) {
      programs::Check(*library, gate);
    }
    programs::WaitForARelease(*library);
  });
}
