// The order in which a sum walks through a view.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "operators/reduce_sum/computation.h"

namespace acl_host {
namespace {

// Adds an axis behind those with shorter steps, as part of the last one if both can be walked through as one.
void Append(std::vector<SummedAxis>& axes, const SummedAxis& next) {
  if (next.size == 1) return;
  if (!axes.empty()) {
    SummedAxis& last = axes.back();
    if (next.stride == last.stride * last.size && next.sum_stride == last.sum_stride * last.size) {
      last.size *= next.size;
      return;
    }
  }
  axes.push_back(next);
}

}  // namespace

Summation SummationOf(const aclTensor& self, const std::vector<bool>& is_added, aclDataType to) {
  Summation summation{self.data_type, to, {}, {}, 1, 1};
  std::vector<SummedAxis> added;
  for (size_t axis = self.view_dims.size(); axis-- > 0;) {
    const int64_t size = self.view_dims[axis];
    if (is_added[axis]) {
      added.push_back({size, self.strides[axis]});
      summation.terms *= size;
    } else {
      Append(summation.kept, {size, self.strides[axis], summation.sums});
      summation.sums *= size;
    }
  }
  std::stable_sort(added.begin(), added.end(),
                   [](const SummedAxis& a, const SummedAxis& b) { return std::abs(a.stride) < std::abs(b.stride); });
  for (const SummedAxis& axis : added) Append(summation.added, axis);
  return summation;
}

}  // namespace acl_host
