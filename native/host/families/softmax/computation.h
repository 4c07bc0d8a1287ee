// The gradients of functions along the rows of a tensor that have one sum of each row: softmax and its logarithm.
#pragma once

#include <cstdint>

#include "families/rows/floats.h"
#include "plan/vector_levels.h"

namespace acl_host {

enum class RowFunction { kSoftmax, kLogSoftmax };

// Rows along one axis: the elements of a row are `inner` apart. No size is 0.
struct RowGradient {
  RowFunction function;
  int64_t outer;
  int64_t length;
  int64_t inner;
  FloatOperand grad_output;
  FloatOperand output;
  FloatOperand gradient;

  // How many of the elements of a row are added up in one go, and how many such parts a row has.
  static constexpr int64_t part_length() { return kRowPart; }
  [[nodiscard]] int64_t parts() const { return (length - 1) / part_length() + 1; }
  // Of the memory for the sums of the parts; 0 if rows have one part.
  [[nodiscard]] uint64_t sums_bytes() const {
    return parts() == 1 ? 0 : static_cast<uint64_t>(outer * parts() * inner) * sizeof(float);
  }
};

// The scratch memory has sums_bytes(), if that is not 0.
template <VectorLevel>
struct RowGradients {
  static void Run(const RowGradient& work, const KernelArguments& arguments);
};

}  // namespace acl_host
