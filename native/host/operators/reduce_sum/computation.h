// Sums along axes of a view.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "tensors/tensor.h"

namespace acl_host {

// An axis of the view, of more than one element. Strides are in elements; axes that are added up have none in the sums.
struct SummedAxis {
  int64_t size;
  int64_t stride;
  int64_t sum_stride = 0;
};

// How the elements that are added up, or the sums, lie in memory. The first axis has the shortest steps.
struct Summation {
  aclDataType from;
  aclDataType to;
  std::vector<SummedAxis> kept;
  std::vector<SummedAxis> added;
  int64_t sums;   // of all kept axes
  int64_t terms;  // of each sum

  // Into how many parts a sum is cut, whose totals are added in order. It depends on the terms of one sum alone, and so
  // do the bits of the result.
  [[nodiscard]] int64_t parts() const { return std::clamp<int64_t>(terms / kPartTerms, 1, kMostParts); }
  static constexpr int64_t kMostParts = 64;
  static constexpr int64_t kPartTerms = 4096;
};

// Of a view along some of its axes.
[[nodiscard]] Summation SummationOf(const aclTensor& self, const std::vector<bool>& is_added, aclDataType to);

// The element at a place that is counted through the axes, the first of which is the fastest.
[[nodiscard]] inline int64_t OffsetIn(const std::vector<SummedAxis>& axes, int64_t place,
                                      int64_t SummedAxis::* stride) {
  int64_t offset = 0;
  for (const SummedAxis& axis : axes) {
    offset += place % axis.size * (axis.*stride);
    place /= axis.size;
  }
  return offset;
}

// Of FLOAT, FLOAT16 and BF16. It has scratch of kPartBytes.
inline constexpr uint64_t kPartBytes = (uint64_t{Summation::kMostParts} * 512 + 1) * sizeof(double);
template <VectorLevel>
struct ReduceSum {
  static void Run(const Summation& summation, const KernelArguments& arguments);
};

// Of other numbers, or to other types.
void SumNumbers(const Summation& summation, const KernelArguments& arguments);

}  // namespace acl_host
