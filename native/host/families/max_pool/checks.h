// The arguments of the gradient of max pooling, and their checks.
#pragma once

#include <cstdint>
#include <vector>

#include "families/max_pool/pooling.h"
#include "operator_plans.h"
#include "plan/plan.h"
#include "tensors/tensor.h"

namespace acl_host {

// The operators have the same arguments.
using MaxPoolArguments = MaxPool2dWithIndicesBackwardArguments;

// The differences between operators and products.
struct MaxPoolRules {
  std::vector<aclDataType> types;
  std::vector<aclDataType> index_types;
  bool takes_dilation;
};

// Checks in CANN's order and with CANN's codes; the operator checks the shape of indices.
[[nodiscard]] MaxPool CheckMaxPool(const MaxPoolArguments& arguments, const MaxPoolRules& rules);

// Adds scratch to the plan for the sums of all tiles that are computed at once; returns their number.
[[nodiscard]] int64_t AddSums(Plan& plan, const MaxPool& pool, int64_t element_bytes);

}  // namespace acl_host
