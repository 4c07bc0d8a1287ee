#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// A tensor of the launch, by its place among the inputs or the outputs.
struct LayerNormOperand {
  size_t index;
  aclDataType type;
};

// Rows of columns elements; neither is 0. Operands that are not given or not wanted have no value.
struct LayerNorm {
  int64_t rows;
  int64_t columns;
  LayerNormOperand grad_out;
  LayerNormOperand input;
  LayerNormOperand mean;
  LayerNormOperand rstd;
  std::optional<LayerNormOperand> weight;
  std::optional<LayerNormOperand> grad_input;
  std::optional<LayerNormOperand> grad_weight;
  std::optional<LayerNormOperand> grad_bias;

  [[nodiscard]] bool sums_columns() const { return grad_weight || grad_bias; }
};

// The wanted gradients, each rounded to its type. The scratch memory has the parts of chunks.h.
template <VectorLevel>
struct LayerNormBackward {
  static void Run(const LayerNorm& norm, const Launch& launch);
};

}  // namespace acl_host
