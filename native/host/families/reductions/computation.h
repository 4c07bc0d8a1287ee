// Reductions along axes of a view: sums, means and largest elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "tensors/tensor.h"

namespace acl_host {

// An axis of the view, of more than one element. Strides are in elements; axes that are reduced have none in the
// results.
struct ReducedAxis {
  int64_t size;
  int64_t stride;
  int64_t result_stride = 0;
};

// How the elements that are reduced, or the results, lie in memory. The first axis has the shortest steps.
struct Reduction {
  aclDataType from;
  aclDataType to;
  std::vector<ReducedAxis> kept;
  std::vector<ReducedAxis> reduced;
  int64_t results;     // of all kept axes
  int64_t terms;       // of each result
  double divisor = 1;  // of sums

  // Into how many parts a result is cut, which are put together in order. It depends on the terms of one result alone,
  // and so do the bits of a sum.
  [[nodiscard]] int64_t parts() const { return std::clamp<int64_t>(terms / kPartTerms, 1, kMostParts); }
  static constexpr int64_t kMostParts = 64;
  static constexpr int64_t kPartTerms = 4096;
};

// Of a view along some of its axes.
[[nodiscard]] Reduction ReductionOf(const aclTensor& self, const std::vector<bool>& is_reduced, aclDataType to);

// The element at a place that is counted through the axes, the first of which is the fastest.
[[nodiscard]] inline int64_t OffsetIn(const std::vector<ReducedAxis>& axes, int64_t place,
                                      int64_t ReducedAxis::* stride) {
  int64_t offset = 0;
  for (const ReducedAxis& axis : axes) {
    offset += place % axis.size * (axis.*stride);
    place /= axis.size;
  }
  return offset;
}

// The scratch of the kernels.
inline constexpr uint64_t kPartBytes = (uint64_t{Reduction::kMostParts} * 512 + 1) * sizeof(double);

// Sums of FLOAT, FLOAT16 and BF16.
template <VectorLevel>
struct ReduceSum {
  static void Run(const Reduction& reduction, const KernelArguments& arguments);
};

// The largest elements, of any type but complex numbers; NaN is larger than all of them.
template <VectorLevel>
struct ReduceMax {
  static void Run(const Reduction& reduction, const KernelArguments& arguments);
};

// Sums of other numbers, or to other types. Needs no scratch.
void SumNumbers(const Reduction& reduction, const KernelArguments& arguments);

// Writes NaN, or 0 to integers, to so many elements of the first output.
void FillNan(aclDataType type, int64_t count, const KernelArguments& arguments);

}  // namespace acl_host
