// The first phase of the gradient of an elementwise function.
#pragma once

#include <vector>

#include "families/elementwise/computation.h"
#include "plan/checks.h"
#include "plan/plan.h"

namespace acl_host {

// How the types of the tensors have to fit each other: all are equal; or those of the inputs are promoted, and the
// output is of the promoted type, or of any type that it can be cast to.
enum class Types { kEqual, kPromoted, kCast };

// The differences between the operators' checks.
struct ElementwiseRules {
  std::vector<aclDataType> types;
  Types fit = Types::kEqual;
  bool broadcasts = true;
  bool limits_rank = true;  // to 8
};

struct ElementwiseTensors {
  Argument grad_output;
  Argument saved;
  Argument gradient;
};

// Throws for tensors that break the rules.
void CheckElementwise(const ElementwiseRules& rules, const ElementwiseTensors& tensors);

// The plan for tensors that were checked.
[[nodiscard]] Plan MakeElementwisePlan(Function function, const ElementwiseTensors& tensors, float parameter = 0);

}  // namespace acl_host
