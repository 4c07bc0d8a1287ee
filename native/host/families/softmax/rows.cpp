#include "families/softmax/rows.h"

#include <algorithm>
#include <string>

namespace acl_host {

void CheckAxis(const Argument& argument, int64_t dim) {
  const int64_t rank = std::max<int64_t>(argument.tensor.rank(), 1);
  if (-rank <= dim && dim < rank) return;
  FailInvalid("dim: expected -" + std::to_string(rank) + " to " + std::to_string(rank - 1) + " for " + argument.name +
              " of shape " + DimsText(argument.tensor.view_dims) + ", got " + std::to_string(dim));
}

AxisRows RowsOf(const Argument& argument, int64_t dim) {
  const Dims& dims = argument.tensor.view_dims;
  if (dims.empty()) return {1, 1, 1};
  const auto axis = dims.begin() + (dim < 0 ? dim + argument.tensor.rank() : dim);
  return {ElementCount(Dims(dims.begin(), axis)), *axis, ElementCount(Dims(axis + 1, dims.end()))};
}

}  // namespace acl_host
