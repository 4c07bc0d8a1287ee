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

  // Into how many parts a sum is cut, so that few sums are work for many threads. It does not depend on the threads,
  // because the result does on it.
  [[nodiscard]] int64_t PartsOf(int64_t tasks, int64_t terms_of_task) const {
    constexpr int64_t kTasks = 64;
    constexpr int64_t kLeastTerms = 16384;
    return std::clamp<int64_t>(std::min(kTasks / std::max<int64_t>(tasks, 1), terms_of_task / kLeastTerms), 1, kTasks);
  }
};

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
inline constexpr uint64_t kPartBytes = (uint64_t{64} * 512 + 1) * sizeof(double);
template <VectorLevel>
struct ReduceSum {
  static void Run(const Summation& summation, const KernelArguments& arguments);
};

// Of other numbers, or to other types.
void SumNumbers(const Summation& summation, const KernelArguments& arguments);

}  // namespace acl_host
