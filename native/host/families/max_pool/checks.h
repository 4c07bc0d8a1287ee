// The arguments of the gradient of max pooling, their checks and the plan.
#pragma once

#include <cstdint>
#include <vector>

#include "families/max_pool/pooling.h"
#include "operator_plans.h"
#include "plan/checks.h"
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

// indices is the tensor that the kernel reads.
template <template <VectorLevel> class Kernel>
[[nodiscard]] Plan MakeMaxPoolPlan(const MaxPool& pool, const MaxPoolArguments& arguments, const aclTensor& indices) {
  const aclDataType type = arguments.self->data_type;
  Plan plan =
      PlanOf({{"gradOutput", arguments.grad_output}, {"indices", &indices}}, {{"gradInput", arguments.grad_input}});
  const int64_t slots = AddSums(plan, pool, static_cast<int64_t>(aclDataTypeSize(type)));
  plan.PromiseTimeOfBytes();
  plan.SetKernel<Kernel>(pool, type, slots);
  return plan;
}

}  // namespace acl_host
