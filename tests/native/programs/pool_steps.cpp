// Runs the steps of its input on a memory pool; tests/native/test_pool_model.py compares it with a model.
#include <iostream>
#include <map>
#include <string>

#include "error.h"
#include "expect.h"
#include "host_library.h"
#include "memory_pool.h"

namespace programs {
namespace {

void Print(const aclgrad::PoolStatistics& statistics) {
  std::cout << statistics.allocated_bytes << ' ' << statistics.reserved_bytes << ' ' << statistics.peak_allocated_bytes
            << ' ' << statistics.peak_reserved_bytes << ' ' << statistics.largest_free_bytes << ' '
            << statistics.allocation_count << ' ' << statistics.out_of_memory_count << std::endl;
}

// Runs until a line "end", or the end of the input.
bool Run(const aclgrad::AclLibrary& library) {
  aclgrad::PoolOptions options;
  if (!(std::cin >> options.limit_bytes >> options.high_water_bytes >> options.pass_through)) return false;
  aclgrad::MemoryPool pool(library, aclgrad::DeviceMemorySource(library, options.pass_through), options);
  std::map<std::byte*, aclgrad::PoolBlock> held;
  for (std::string step; std::cin >> step && step != "end";) {
    std::size_t number = 0;
    if (step == "allocate" && std::cin >> number) {
      try {
        aclgrad::PoolBlock block = pool.Allocate(number);
        auto* address = static_cast<std::byte*>(block.address());
        std::cout << reinterpret_cast<uintptr_t>(address) << ' ' << block.capacity() << std::endl;
        held.emplace(address, std::move(block));
      } catch (const aclgrad::OutOfMemory& error) {
        std::cout << "refused " << error.size_bytes() << ' ' << error.limit_bytes() << std::endl;
      }
    } else if (step == "release" && std::cin >> number) {
      held.erase(reinterpret_cast<std::byte*>(number));
    } else if (step == "trim") {
      pool.Trim();
    } else if (step == "statistics") {
      Print(pool.Statistics());
    }
  }
  return true;
}

}  // namespace
}  // namespace programs

int main(int argc, char** argv) {
  return programs::RunProgram(argc, argv, [](const std::string& path, int) {
    const auto library = programs::OpenHost(path, "{}");
    library->Check((*library)->aclrtSetDevice(0), "aclrtSetDevice");
    while (programs::Run(*library)) {
    }
    library->Check((*library)->aclrtResetDevice(0), "aclrtResetDevice");
  });
}
