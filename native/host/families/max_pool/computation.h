#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "families/max_pool/pooling.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// gradOutput and positions, or a mask of bits -> the gradient, of a floating-point type of up to 32 bits. A position
// outside its own window adds nothing, as in the kernels of devices. The scratch has room for the sums of so many
// threads.
template <VectorLevel>
struct MaxPoolBackward {
  static void Run(const MaxPool& pool, aclDataType type, int64_t slots, const KernelArguments& arguments);
};

}  // namespace acl_host
