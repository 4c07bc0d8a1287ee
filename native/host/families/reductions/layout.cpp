// The order in which a reduction walks through a view.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "families/reductions/computation.h"

namespace acl_host {
namespace {

// Adds an axis behind those with shorter steps, as part of the last one if both can be walked through as one.
void Append(std::vector<ReducedAxis>& axes, const ReducedAxis& next) {
  if (next.size == 1) return;
  if (!axes.empty()) {
    ReducedAxis& last = axes.back();
    if (next.stride == last.stride * last.size && next.result_stride == last.result_stride * last.size) {
      last.size *= next.size;
      return;
    }
  }
  axes.push_back(next);
}

}  // namespace

Reduction ReductionOf(const aclTensor& self, const std::vector<bool>& is_reduced, aclDataType to) {
  Reduction reduction{self.data_type, to, {}, {}, 1, 1, 1};
  std::vector<ReducedAxis> reduced;
  for (size_t axis = self.view_dims.size(); axis-- > 0;) {
    const int64_t size = self.view_dims[axis];
    if (is_reduced[axis]) {
      reduced.push_back({size, self.strides[axis]});
      reduction.terms *= size;
    } else {
      Append(reduction.kept, {size, self.strides[axis], reduction.results});
      reduction.results *= size;
    }
  }
  std::stable_sort(reduced.begin(), reduced.end(),
                   [](const ReducedAxis& a, const ReducedAxis& b) { return std::abs(a.stride) < std::abs(b.stride); });
  for (const ReducedAxis& axis : reduced) Append(reduction.reduced, axis);
  return reduction;
}

}  // namespace acl_host
