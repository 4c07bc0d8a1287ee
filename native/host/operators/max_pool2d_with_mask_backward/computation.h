#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl_base.h"
#include "families/max_pool/pooling.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

enum class MaskKind { kArgmax, kBits };

// gradOutput and the mask -> the gradient, of a floating-point type of up to 32 bits. The scratch has room for the
// sums of so many threads.
template <VectorLevel>
struct MaxPool2dWithMaskBackward {
  static void Run(const MaxPool& pool, MaskKind kind, aclDataType type, int64_t slots,
                  const KernelArguments& arguments);
};

}  // namespace acl_host
