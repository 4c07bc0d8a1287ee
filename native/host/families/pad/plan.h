// The first phase of an operator that is the gradient of padding.
#pragma once

#include <cstddef>

#include "aclnn/acl_meta.h"
#include "families/pad/computation.h"
#include "plan/plan.h"

namespace acl_host {

struct PadArguments {
  const aclTensor* grad_output;
  const aclTensor* self;
  const aclIntArray* padding;
  const aclTensor* grad_input;
};

// The differences between the operators.
struct PadOperator {
  PadRule rule;
  size_t axes;
  // A tensor without a batch may also be empty in its first dim.
  bool takes_no_channels;
};

// Checks in CANN's order and with CANN's codes.
[[nodiscard]] Plan PlanPad(const PadOperator& op, const PadArguments& arguments);

}  // namespace acl_host
