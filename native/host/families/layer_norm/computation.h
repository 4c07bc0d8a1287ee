#pragma once

#include <cstdint>
#include <optional>

#include "families/rows/floats.h"
#include "plan/vector_levels.h"

namespace acl_host {

// Rows of columns elements; neither is 0. Operands that are not given or not wanted have no value.
struct LayerNorm {
  int64_t rows;
  int64_t columns;
  FloatOperand grad_out;
  FloatOperand input;
  std::optional<FloatOperand> mean;  // rows without one were not centred
  FloatOperand rstd;
  std::optional<FloatOperand> weight;
  std::optional<FloatOperand> grad_input;
  std::optional<FloatOperand> grad_weight;
  std::optional<FloatOperand> grad_bias;

  [[nodiscard]] bool sums_columns() const { return grad_weight || grad_bias; }
};

// The wanted gradients, each rounded to its type. The scratch memory has the parts of chunks.h.
template <VectorLevel>
struct LayerNormBackward {
  static void Run(const LayerNorm& norm, const KernelArguments& arguments);
};

}  // namespace acl_host
