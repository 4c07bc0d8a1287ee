// The gradient of a function of each element by itself. The operators differ in their formulas and their checks.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// What is differentiated; formulas.h has the gradients.
enum class Function { kSilu, kSigmoid, kTanh, kLeakyRelu, kHardswish, kThreshold, kGelu, kGeluTanh };

// gradOutput and what the function saved -> the gradient, each of a type of its own.
struct Elementwise {
  Function function;
  aclDataType grad_output;
  aclDataType saved;
  aclDataType gradient;
  aclDataType computed;  // the type of the formula's numbers, which holds those of gradOutput and saved
  int64_t count;         // elements of each
  float parameter;       // of the function, if it has one
};

template <VectorLevel>
struct ElementwiseBackward {
  static void Run(const Elementwise& work, const KernelArguments& arguments);
};

}  // namespace acl_host
