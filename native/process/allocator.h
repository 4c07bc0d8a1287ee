// The allocator of the process: how the C library keeps memory that was freed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace aclgrad {

struct AllocatorOptions {
  // Blocks of this size and more are mapped afresh each time and unmapped when freed.
  std::size_t mmap_threshold_bytes;
  // Free memory at the end of the heap beyond this goes back to the system at once.
  std::size_t trim_threshold_bytes;
  // What the heap takes from the system beyond what it needs at the moment.
  std::size_t top_pad_bytes;
  // Heaps among which threads are spread.
  int arena_limit;
};

// Sets what glibc lets be set, and returns what could not be set, a sentence each: empty where all is as asked for.
// Elsewhere (musl, macOS) does nothing and says so.
[[nodiscard]] std::vector<std::string> TuneAllocator(const AllocatorOptions& options);

// Gives free memory of every heap back to the system; says whether there was any. Takes milliseconds per gigabyte.
bool TrimAllocator() noexcept;

}  // namespace aclgrad
