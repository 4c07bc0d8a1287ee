// Average pooling over two axes, and its gradient over up to three: adaptive, or with windows of one size.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "families/average_pool/windows.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

struct AveragePool {
  int64_t planes;
  PooledAxis depth;
  PooledAxis rows;
  PooledAxis columns;
  // The divisor of each window's sum; 0 for the number of its cells.
  int64_t divisor = 0;
};

// gradOutput -> the gradient, both of a real floating-point type.
template <VectorLevel>
struct AveragePoolBackward {
  static void Run(const AveragePool& pool, aclDataType type, const KernelArguments& arguments);
};

// The input -> the pooled tensor, over the last two axes.
template <VectorLevel>
struct AveragePoolForward {
  static void Run(const AveragePool& pool, aclDataType type, const KernelArguments& arguments);
};

}  // namespace acl_host
