// The gradient of SwiGLU, SiLU(A) * B.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// Rows of x are a row of A and one of B, each as long as a row of yGrad.
struct SwiGlu {
  int64_t rows;
  int64_t columns;  // of yGrad
  aclDataType type;
};

// yGrad and x -> the gradient of x.
template <VectorLevel>
struct SwiGluGradient {
  static void Run(const SwiGlu& glu, const KernelArguments& arguments);
};

}  // namespace acl_host
