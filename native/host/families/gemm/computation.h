// Products of matrices: out = beta * added + alpha * left @ right.
#pragma once

#include <algorithm>
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

// Inputs are left and right, and added if there is any. Outputs are row-major. A product of one column is given as one
// of one row.
struct MatrixProduct {
  Dims batches;
  int64_t rows;
  int64_t columns;
  int64_t depth;
  Matrices left;
  Matrices right;
  std::optional<Matrices> added;
  aclDataType out;
  // Few results of much depth are cut into parts of this depth, whose sums are added up in float64. It depends on each
  // matrix alone, so that its product has the same bits in every batch.
  int64_t part_depth;
  float alpha = 1;
  float beta = 0;

  // Whether the sums of products are the results.
  [[nodiscard]] bool is_plain() const { return out == ACL_FLOAT && alpha == 1 && !added; }
  [[nodiscard]] int64_t parts() const { return depth == 0 ? 1 : (depth - 1) / part_depth + 1; }
};

// The most products that are added up in float32 one after the other. Such sums are added in order.
inline constexpr int64_t kDepthOfSum = 256;

// The depth of the parts of products of such matrices.
[[nodiscard]] int64_t PartDepthOf(int64_t rows, int64_t columns, int64_t depth);

// How a product is divided among threads, which its bits do not depend on.
struct ProductBlocks {
  // Columns of a vector's product that a thread makes at a time.
  static constexpr int64_t kVectorColumns = 1024;

  // The product of a vector, by columns alone.
  bool is_vector;
  // A block is made by one thread, in a slot of scratch of its own; or by all, one block after the other.
  bool is_shared;
  int64_t rows;
  int64_t columns;
  int64_t slots;
  // Of each slot: room for packed panels, and for the sums of results of 16 bits.
  int64_t panel_bytes;
  int64_t sum_bytes;
  // Matrices, and rows of each, whose parts are made at a time.
  int64_t part_matrices;
  int64_t part_rows;

  [[nodiscard]] int64_t slot_bytes() const { return panel_bytes + sum_bytes; }
};

// What it takes of the product with so many threads.
[[nodiscard]] ProductBlocks BlocksOf(const MatrixProduct& product, int64_t threads);

// Scratch is that of all slots, which begin where vectors do, and that of the sums of parts.
inline constexpr int64_t kSlotAlignment = 64;

template <VectorLevel>
struct Gemm {
  static void Run(const MatrixProduct& product, const ProductBlocks& blocks, const KernelArguments& arguments);
};

}  // namespace acl_host
