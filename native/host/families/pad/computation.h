// The gradient of padding, over one to three axes and by either rule: the operators differ only in their checks.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

enum class PadRule { kReplication, kReflection };

// One axis before and after padding; neither size is 0.
struct PaddedAxis {
  int64_t size;
  int64_t before;  // cells added in front; negative, at least -size: cells removed
  int64_t padded;
};

// An axis that is not padded.
inline constexpr PaddedAxis kNoAxis{1, 0, 1};

struct Pad {
  PadRule rule;
  int64_t planes;
  PaddedAxis depth;
  PaddedAxis rows;
  PaddedAxis columns;
};

// gradOutput -> the gradient, both of a floating-point or complex type.
template <VectorLevel>
struct PadBackward {
  static void Run(const Pad& pad, aclDataType type, const KernelArguments& arguments);
};

}  // namespace acl_host
