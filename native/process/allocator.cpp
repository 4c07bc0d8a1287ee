#include "allocator.h"

#include <algorithm>
#include <limits>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace aclgrad {

#ifdef __GLIBC__
namespace {

// Until glibc 2.35 mallopt refuses a higher threshold: half of what a heap other than the first may hold. The variable
// MALLOC_MMAP_THRESHOLD_ has the same bound there, and is ignored in silence.
constexpr std::size_t kOldMmapThresholdLimit = std::size_t{32} << 20;

bool Set(int parameter, std::size_t value) {
  // mallopt takes an int.
  constexpr std::size_t kLargest = std::numeric_limits<int>::max();
  return mallopt(parameter, static_cast<int>(std::min(value, kLargest))) == 1;
}

std::string Refused(const char* parameter, std::size_t value) {
  return std::string("mallopt refused ") + parameter + " = " + std::to_string(value);
}

}  // namespace

std::vector<std::string> TuneAllocator(const AllocatorOptions& options) {
  std::vector<std::string> failures;
  if (!Set(M_MMAP_THRESHOLD, options.mmap_threshold_bytes)) {
    failures.push_back(Refused("M_MMAP_THRESHOLD", options.mmap_threshold_bytes));
    if (options.mmap_threshold_bytes > kOldMmapThresholdLimit && Set(M_MMAP_THRESHOLD, kOldMmapThresholdLimit)) {
      failures.back() += "; it is " + std::to_string(kOldMmapThresholdLimit) + ", the limit of this glibc";
    }
  }
  const auto set = [&failures](int parameter, const char* name, std::size_t value) {
    if (!Set(parameter, value)) failures.push_back(Refused(name, value));
  };
  set(M_TRIM_THRESHOLD, "M_TRIM_THRESHOLD", options.trim_threshold_bytes);
  set(M_TOP_PAD, "M_TOP_PAD", options.top_pad_bytes);
  set(M_ARENA_MAX, "M_ARENA_MAX", static_cast<std::size_t>(options.arena_limit));
  return failures;
}

bool TrimAllocator() noexcept { return malloc_trim(0) == 1; }

#else

std::vector<std::string> TuneAllocator(const AllocatorOptions&) {
  return {"the C library is not glibc, so that its allocator stays as it is"};
}

bool TrimAllocator() noexcept { return false; }

#endif

}  // namespace aclgrad
