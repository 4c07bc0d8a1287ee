#pragma once

#include <algorithm>
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

  // The rows of out are divided into blocks, and these into tiles whose sums stay in the cache.
  static constexpr int64_t kTileElements = 65536;

  [[nodiscard]] int64_t tile_columns() const { return std::min(columns, kTileElements); }
  [[nodiscard]] int64_t block_rows() const { return std::min(kTileElements / tile_columns(), weights); }
  [[nodiscard]] int64_t blocks() const { return (weights - 1) / block_rows() + 1; }

  // Of the indices, so many are ordered at a time, which takes little memory beside theirs; those of a single block
  // need no order. The numbers are the sizes of all blocks, and positions.
  [[nodiscard]] int64_t most_positions() const {
    constexpr int64_t kLeast = 131072;
    constexpr int64_t kPart = 16;
    return blocks() == 1 ? 0 : std::min(std::max(kLeast, count / kPart), count);
  }
  [[nodiscard]] int64_t numbers() const { return blocks() == 1 ? 0 : blocks() + most_positions(); }
};

// A row of out adds up rows of grad in their order, in float64, and is rounded once. An index that is no row faults.
// The scratch memory has numbers() of 64 bits, if that is not 0.
template <VectorLevel>
struct EmbeddingDenseBackward {
  static void Run(const Embedding& embedding, const KernelArguments& arguments);
};

}  // namespace acl_host
