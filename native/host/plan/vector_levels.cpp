#include "plan/vector_levels.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "device/runtime.h"

namespace acl_host {
namespace {

constexpr std::array kNames = {"baseline", "avx2", "avx512"};

// Checks for exactly the instructions of the build's compiler options for each level.
VectorLevel HighestVectorLevel() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) return VectorLevel::baseline;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? VectorLevel::avx512 : VectorLevel::avx2;
#else
  return VectorLevel::baseline;
#endif
}

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
