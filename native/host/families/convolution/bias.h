// The bias of a convolution, which sums of one of its tensors begin or end with.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/plan.h"
#include "plan/scratch.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// The bias as float32, in the second scratch; null without one.
template <typename T>
[[nodiscard]] const float* WidenedBias(const KernelArguments& arguments, int64_t channels) {
  if (arguments.inputs.size() < 3) return nullptr;
  auto* const bias = AlignedTo<float>(arguments.scratch[1]);
  WidenRow<T>(arguments.inputs[2], bias, channels);
  return bias;
}

}  // namespace
}  // namespace acl_host
