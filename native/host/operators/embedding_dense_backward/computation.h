#pragma once

#include <cstdint>

#include "families/gathering/row_blocks.h"
#include "families/rows/floats.h"
#include "plan/vector_levels.h"

namespace acl_host {

// Looked-up rows, and the rows of the weight that they were. No size is 0.
struct Embedding {
  RowBlocks blocks;
  int64_t padding;  // the row without a gradient; negative: none
  bool scales;      // by the number of a row's indices
  FloatOperand grad;
  aclDataType index_type;
  FloatOperand out;
};

// A row of out adds up rows of grad in their order, in float64, and is rounded once. An index that is no row faults.
// The scratch memory has numbers() of its blocks, of 64 bits each, if that is not 0.
template <VectorLevel>
struct EmbeddingDenseBackward {
  static void Run(const Embedding& embedding, const KernelArguments& arguments);
};

}  // namespace acl_host
