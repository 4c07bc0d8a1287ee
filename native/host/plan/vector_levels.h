// Vector code for the processor at hand. An operator's computation.cpp is compiled once for each level, from the
// instructions that every processor of the architecture has to those that only some have. aclInit chooses a level.
//
// An operator declares, in its computation.h, a template over the level with one static function:
//
//   template <VectorLevel>
//   struct Example {
//     static void Run(const KernelArguments& launch);
//   };
//
// defines it in computation.cpp, for the level that the file is compiled for:
//
//   template <>
//   void Example<VECTOR_LEVEL>::Run(const KernelArguments& launch) { ... }
//
// and calls it through AtVectorLevel<Example>(). Everything else in the source file belongs in an unnamed namespace.
// Otherwise each level would define the same function, which the linker refuses.
#pragma once

#include <string>
#include <vector>

namespace acl_host {

// Results have the same bits at every level, except products of matrices (families/gemm), convolutions and the payload
// of NaNs. The build uses the same names.
enum class VectorLevel { baseline, avx2, avx512 };

// The names of the levels, lowest first; the last is the default.
[[nodiscard]] std::vector<std::string> SupportedVectorLevels();
[[nodiscard]] VectorLevel FindVectorLevel(const std::string& name);

// The level of the running library.
[[nodiscard]] VectorLevel CurrentVectorLevel();

template <template <VectorLevel> class Kernel>
[[nodiscard]] auto AtVectorLevel() {
#ifdef ONLY_VECTOR_LEVEL
  return &Kernel<VectorLevel::ONLY_VECTOR_LEVEL>::Run;
#else
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
#endif
}

}  // namespace acl_host
