// Softmax and its logarithm along an axis, and their gradients.
#pragma once

#include <cstdint>

#include "families/rows/floats.h"
#include "plan/vector_levels.h"

namespace acl_host {

enum class RowFunction { kSoftmax, kLogSoftmax };

// Rows along one axis: the elements of a row are `inner` apart. No size is 0.
struct AxisRows {
  int64_t outer;
  int64_t length;
  int64_t inner;

  // How many of the elements of a row are added up in one go, and how many such parts a row has.
  static constexpr int64_t part_length() { return kRowPart; }
  [[nodiscard]] int64_t parts() const { return (length - 1) / part_length() + 1; }
  // Of the memory for a number of each part; 0 if rows have one part.
  [[nodiscard]] uint64_t parts_bytes() const {
    return parts() == 1 ? 0 : static_cast<uint64_t>(outer * parts() * inner) * sizeof(float);
  }
};

struct RowValue {
  AxisRows rows;
  RowFunction function;
  FloatOperand self;
  FloatOperand out;
};

struct RowGradient {
  AxisRows rows;
  RowFunction function;
  FloatOperand grad_output;
  FloatOperand output;
  FloatOperand gradient;
};

// The scratch memory has parts_bytes() for the largest elements of the parts, and the same for sums, if that is not 0.
template <VectorLevel>
struct RowValues {
  static void Run(const RowValue& work, const KernelArguments& arguments);
};

// The scratch memory has parts_bytes() for sums, if that is not 0.
template <VectorLevel>
struct RowGradients {
  static void Run(const RowGradient& work, const KernelArguments& arguments);
};

}  // namespace acl_host
