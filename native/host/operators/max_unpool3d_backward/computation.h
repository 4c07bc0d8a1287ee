#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// No size is 0.
struct MaxUnpool3d {
  int64_t planes;
  int64_t cells;          // of one plane of the gradient
  int64_t grad_elements;  // of one plane of gradOutput
};

// gradOutput and indices -> the gradient. An index outside its plane is a device fault, and nothing is read for it.
template <VectorLevel>
struct MaxUnpool3dBackward {
  static void Run(const MaxUnpool3d& unpool, aclDataType type, const Launch& launch);
};

}  // namespace acl_host
