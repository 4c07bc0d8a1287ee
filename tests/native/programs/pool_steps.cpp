// Runs the steps of its input on a memory pool, and answers each with a line that ends with the pool's statistics;
// tests/native/test_pool_model.py compares it with a model.
#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

#include "error.h"
#include "host_library.h"
#include "memory_pool.h"
#include "program.h"

namespace programs {
namespace {

void Print(const aclgrad::PoolStatistics& statistics) {
  std::cout << statistics.allocated_bytes << ' ' << statistics.reserved_bytes << ' ' << statistics.peak_allocated_bytes
            << ' ' << statistics.peak_reserved_bytes << ' ' << statistics.largest_free_bytes << ' '
            << statistics.allocation_count << ' ' << statistics.out_of_memory_count << '\n';
}

void Allocate(aclgrad::MemoryPool& pool, std::size_t size, std::vector<aclgrad::PoolBlock>& held) {
  try {
    held.push_back(pool.Allocate(size));
    std::cout << reinterpret_cast<uintptr_t>(held.back().address()) << ' ' << held.back().capacity() << ' ';
  } catch (const aclgrad::OutOfMemory& error) {
    std::cout << "refused " << error.size_bytes() << ' ' << error.limit_bytes() << ' ';
  }
}

// Runs until a step "end", which returns everything, or until the end of the input.
bool RunSteps(const aclgrad::AclLibrary& library) {
  aclgrad::PoolOptions options;
  if (!(std::cin >> options.limit_bytes >> options.high_water_bytes >> options.pass_through)) return false;
  aclgrad::MemoryPool pool(library, aclgrad::DeviceMemorySource(library, options.pass_through), options);
  std::vector<aclgrad::PoolBlock> held;
  std::string step;
  for (std::size_t number = 0; step != "end" && std::cin >> step >> number;) {
    if (step == "allocate") {
      Allocate(pool, number, held);
    } else if (step == "release" && !held.empty()) {
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(number % held.size()));
    } else if (step == "trim") {
      pool.Trim();
    } else if (step == "end") {
      held.clear();
      pool.Trim();
    }
    Print(pool.Statistics());
  }
  std::cout << std::flush;
  return true;
}

}  // namespace

void Run(const Arguments& given) {
  OnSetDevice(given.library, [](const aclgrad::AclLibrary& library) {
    while (RunSteps(library)) {
    }
  });
}

}  // namespace programs
