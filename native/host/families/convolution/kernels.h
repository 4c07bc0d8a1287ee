// The kernel that makes one of a convolution's tensors, and the scratch that it takes.
#pragma once

#include <cstdint>

#include "families/convolution/computation.h"
#include "plan/plan.h"

namespace acl_host {

struct Computation {
  uint64_t scratch_bytes;
  Plan::Compute run;
};

[[nodiscard]] Computation SmallOf(const Convolution& convolution, int64_t threads);
[[nodiscard]] Computation BigOf(const Convolution& convolution, int64_t threads);
[[nodiscard]] Computation WeightOf(const Convolution& convolution, int64_t threads);

// How many products one tensor takes.
[[nodiscard]] double ProductsOf(const Convolution& convolution);

}  // namespace acl_host
