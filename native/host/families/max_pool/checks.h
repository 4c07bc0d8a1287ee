// What the arguments of a max pooling's gradient say, and the checks that they say something.
#pragma once

#include <cstdint>
#include <vector>

#include "aclnn/acl_meta.h"
#include "families/max_pool/pooling.h"
#include "plan/plan.h"
#include "tensors/tensor.h"

namespace acl_host {

struct MaxPoolArguments {
  const aclTensor* grad_output;
  const aclTensor* self;
  const aclTensor* indices;
  const aclIntArray* kernel_size;
  const aclIntArray* stride;
  const aclIntArray* padding;
  const aclIntArray* dilation;
  bool ceil_mode;
  const aclTensor* grad_input;
};

// What differs between operators and products.
struct MaxPoolRules {
  std::vector<aclDataType> types;
  std::vector<aclDataType> index_types;
  bool takes_dilation;
};

// In CANN's order and with CANN's codes; the shape of indices is left to the operator.
[[nodiscard]] MaxPool CheckMaxPool(const MaxPoolArguments& arguments, const MaxPoolRules& rules);

// Gives the plan scratch for the bands of as many planes as can be worked on at once; returns how many.
[[nodiscard]] int64_t AddBands(Plan& plan, const MaxPool& pool);

}  // namespace acl_host
