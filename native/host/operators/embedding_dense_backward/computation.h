#pragma once

#include <cstdint>

#include "families/rows/floats.h"
#include "plan/vector_levels.h"

namespace acl_host {

// Looked-up rows of columns elements, and the rows of the weight that they were. No size is 0.
struct Embedding {
  int64_t count;
  int64_t columns;
  int64_t weights;
  int64_t padding;  // the row without a gradient; negative: none
  bool scales;      // by the number of a row's indices
  FloatOperand grad;
  aclDataType index_type;
  FloatOperand out;
};

// A row of out adds up rows of grad in their order, in float32, and is rounded once. An index that is no row faults.
template <VectorLevel>
struct EmbeddingDenseBackward {
  static void Run(const Embedding& embedding, const Launch& launch);
};

}  // namespace acl_host
