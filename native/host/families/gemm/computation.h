// Products of matrices: out = beta * added + alpha * left @ right.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/plan.h"
#include "tensors/tensor.h"

namespace acl_host {

// Matrices in memory. Strides are in elements; those of the batch axes are 0 along broadcast axes.
struct Matrices {
  aclDataType type;
  int64_t row_stride;
  int64_t column_stride;
  Dims batch_strides;
};

// Inputs are left and right, and added if there is any. Outputs are row-major.
struct MatrixProduct {
  Dims batches;
  int64_t rows;
  int64_t columns;
  int64_t depth;
  Matrices left;
  Matrices right;
  std::optional<Matrices> added;
  aclDataType out;
  float alpha = 1;
  float beta = 0;
};

template <VectorLevel>
struct Gemm {
  static void Run(const MatrixProduct& product, const KernelArguments& arguments);
};

}  // namespace acl_host
