// Nearest-neighbour upsampling itself: the function that the family's gradient belongs to.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// One axis; neither size is 0. Upsampled cell i is a copy of cell floor(i * step), or of the last one, in float32.
struct NearestAxis {
  int64_t size;
  int64_t upsampled;
  float step;
};

struct NearestCopies {
  int64_t planes;
  NearestAxis rows;
  NearestAxis columns;
};

// self -> the upsampled tensor, both of any type.
template <VectorLevel>
struct UpsampleNearest2d {
  static void Run(const NearestCopies& copies, aclDataType type, const KernelArguments& arguments);
};

}  // namespace acl_host
