// Returns blocks to their pool, which happens in destructors, while the process cannot allocate memory.
#include <cstdlib>
#include <new>
#include <vector>

#include "expect.h"
#include "host_library.h"
#include "memory_pool.h"

namespace {

thread_local bool has_memory = true;

}  // namespace

// Not inlined: if a compiler sees malloc in one and not in the other, it reports a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* address = has_memory ? std::malloc(size) : nullptr;
  if (address == nullptr) throw std::bad_alloc();
  return address;
}
[[gnu::noinline]] void operator delete(void* address) noexcept { std::free(address); }
[[gnu::noinline]] void operator delete(void* address, std::size_t) noexcept { std::free(address); }

namespace programs {
namespace {

void ReleaseAll(const aclgrad::AclLibrary& library, const aclgrad::PoolOptions& options) {
  aclgrad::MemoryPool pool(library, aclgrad::DeviceMemorySource(library, options.pass_through), options);
  std::vector<aclgrad::PoolBlock> blocks;
  for (std::size_t i = 0; i < 100; ++i) blocks.push_back(pool.Allocate(1000 * (i + 1)));
  has_memory = false;
  // Every other block first, so that they do not all join into one.
  for (std::size_t i = 0; i < blocks.size(); i += 2) blocks[i] = {};
  blocks.clear();
  has_memory = true;
  Expect(pool.Statistics().allocated_bytes == 0, "blocks were lost");
}

}  // namespace
}  // namespace programs

int main(int argc, char** argv) {
  return programs::RunProgram(argc, argv, [](const std::string& path, int) {
    const auto library = programs::OpenHost(path, "{}");
    library->Check((*library)->aclrtSetDevice(0), "aclrtSetDevice");
    programs::ReleaseAll(*library, {std::size_t{64} << 20});
    library->Check((*library)->aclrtResetDevice(0), "aclrtResetDevice");
  });
}
