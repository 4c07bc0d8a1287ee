// The gradient of max unpooling, over any number of axes as one: a gather within each plane.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// No size is 0. A fault's report has the operator's name; indices are INT32 or INT64.
struct MaxUnpool {
  const char* operator_name;
  aclDataType index_type;
  int64_t planes;
  int64_t cells;          // of one plane of the gradient
  int64_t grad_elements;  // of one plane of gradOutput
};

// gradOutput and indices -> the gradient. An index outside its plane is a device fault, and nothing is read for it.
template <VectorLevel>
struct MaxUnpoolBackward {
  static void Run(const MaxUnpool& unpool, aclDataType type, const KernelArguments& arguments);
};

}  // namespace acl_host
