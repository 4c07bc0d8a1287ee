// Gated linear units, products of one half of a tensor and a function of the other, and their gradients.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// Of the halves A and B.
enum class Gate {
  kSwiGlu,  // SiLU(A) * B
  kGlu,     // A * sigmoid(B); also of DOUBLE
};

// Rows of the tensor are a row of A and one of B, each as long as a row of the result's gradient.
struct GatedUnit {
  Gate gate;
  int64_t rows;
  int64_t columns;  // of the result
  aclDataType type;
};

// The tensor -> the result; of kSwiGlu alone.
template <VectorLevel>
struct GatedUnitValue {
  static void Run(const GatedUnit& unit, const KernelArguments& arguments);
};

// The gradient of the result and the tensor -> the gradient of the tensor.
template <VectorLevel>
struct GatedUnitGradient {
  static void Run(const GatedUnit& unit, const KernelArguments& arguments);
};

}  // namespace acl_host
