// Vector code that follows the processor. An operator's computation.cpp is compiled once for each level, from the
// instructions that all processors of the architecture have up to those that only some have, and aclInit chooses.
//
// An operator declares, in its computation.h, a template over the level with one static function:
//
//   template <VectorLevel>
//   struct Example {
//     static void Run(const Launch& launch);
//   };
//
// defines it in computation.cpp, for whichever level that file is being compiled for:
//
//   template <>
//   void Example<VECTOR_LEVEL>::Run(const Launch& launch) { ... }
//
// and calls it through AtVectorLevel<Example>(). All else in the source file belongs into an unnamed namespace: a
// function of another name would be defined once per level, and the linker refuses that.
#pragma once

#include <string>
#include <vector>

namespace acl_host {

// Results are the same bits at every level, but for which NaN a sum of several NaNs is. The build names these too.
enum class VectorLevel { baseline, avx2, avx512 };

// By their names, the lowest first; the last is the default.
[[nodiscard]] std::vector<std::string> SupportedVectorLevels();
[[nodiscard]] VectorLevel FindVectorLevel(const std::string& name);

// Of the running library.
[[nodiscard]] VectorLevel CurrentVectorLevel();

template <template <VectorLevel> class Kernel>
[[nodiscard]] auto AtVectorLevel() {
  switch (CurrentVectorLevel()) {
#ifdef __x86_64__
    case VectorLevel::avx512:
      return &Kernel<VectorLevel::avx512>::Run;
    case VectorLevel::avx2:
      return &Kernel<VectorLevel::avx2>::Run;
#endif
    default:
      return &Kernel<VectorLevel::baseline>::Run;
  }
}

}  // namespace acl_host
