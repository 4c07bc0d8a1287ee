// Dropout of the elements that a mask of bits leaves out.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

struct Dropout {
  int64_t count;
  aclDataType type;
  float keep;      // the probability that an element is kept, above 0
  bool keeps_all;  // and the mask is not read
};

// self and mask -> what is kept, over the probability of that.
template <VectorLevel>
struct DropoutMask {
  static void Run(const Dropout& dropout, const KernelArguments& arguments);
};

}  // namespace acl_host
