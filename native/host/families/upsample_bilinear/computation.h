#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// One axis; neither size is 0. Upsampled cell i lies at ratio * i if corners are aligned, and otherwise at
// ratio * (i + 0.5) - 0.5 or 0, in float32.
struct LinearAxis {
  int64_t size;
  int64_t upsampled;
  bool aligns_corners;
  float ratio;
};

struct LinearUpsampling {
  int64_t planes;
  LinearAxis rows;
  LinearAxis columns;

  [[nodiscard]] bool is_copy() const { return rows.size == rows.upsampled && columns.size == columns.upsampled; }
};

// gradOutput -> the gradient, both of a floating-point type of up to 32 bits.
template <VectorLevel>
struct UpsampleBilinear2dBackward {
  static void Run(const LinearUpsampling& upsampling, aclDataType type, const KernelArguments& arguments);
};

// self -> the upsampled tensor, of the same types.
template <VectorLevel>
struct UpsampleBilinear2d {
  static void Run(const LinearUpsampling& upsampling, aclDataType type, const KernelArguments& arguments);
};

}  // namespace acl_host
