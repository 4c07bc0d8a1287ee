// The first phase of an operator that is the gradient of padding.
#pragma once

#include <cstddef>

#include "families/pad/computation.h"
#include "operator_plans.h"
#include "plan/plan.h"

namespace acl_host {

// The operators have the same arguments.
using PadArguments = ReflectionPad1dBackwardArguments;

// The differences between the operators.
struct PadOperator {
  PadRule rule;
  size_t axes;
  // A tensor without a batch may also be empty in its first dim.
  bool takes_no_channels;
};

// Checks in CANN's order and with CANN's codes.
[[nodiscard]] Plan MakePadPlan(const PadOperator& op, const PadArguments& arguments);

}  // namespace acl_host
