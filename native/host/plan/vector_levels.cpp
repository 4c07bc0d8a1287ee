#include "plan/vector_levels.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device/runtime.h"

namespace acl_host {
namespace {

constexpr std::array kNames = {"baseline", "avx2", "avx512"};

#ifdef __x86_64__
// What the processor says of itself. Compilers have functions for that, but those of zig's clang always say no.
struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers ReadFeatures(uint32_t leaf) {
  Registers read;
  __get_cpuid_count(leaf, 0, &read.a, &read.b, &read.c, &read.d);
  return read;
}

// The registers that the system keeps when it switches threads.
uint32_t ReadKeptRegisters() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

constexpr bool HasAll(uint32_t bits, uint32_t wanted) { return (bits & wanted) == wanted; }

// Checks for exactly the instructions of the build's compiler options for each level.
VectorLevel HighestVectorLevel() {
  constexpr uint32_t kAvx = bit_OSXSAVE | bit_AVX | bit_F16C | bit_FMA;
  constexpr uint32_t kAvx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  constexpr uint32_t kAvxRegisters = 0x06;
  constexpr uint32_t kAvx512Registers = 0xE6;
  const uint32_t later = ReadFeatures(7).b;
  if (!HasAll(ReadFeatures(1).c, kAvx) || !HasAll(later, bit_AVX2)) return VectorLevel::baseline;
  const uint32_t kept = ReadKeptRegisters();
  if (!HasAll(kept, kAvxRegisters)) return VectorLevel::baseline;
  return HasAll(later, kAvx512) && HasAll(kept, kAvx512Registers) ? VectorLevel::avx512 : VectorLevel::avx2;
}
#else
VectorLevel HighestVectorLevel() { return VectorLevel::baseline; }
#endif

}  // namespace

std::vector<std::string> SupportedVectorLevels() {
  return {kNames.begin(), kNames.begin() + 1 + static_cast<int>(HighestVectorLevel())};
}

VectorLevel FindVectorLevel(const std::string& name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  return static_cast<VectorLevel>(found - kNames.begin());
}

VectorLevel CurrentVectorLevel() { return Runtime::Current()->config().vector_level; }

}  // namespace acl_host
