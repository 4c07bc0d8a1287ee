// The rows of a tensor along an axis, as the checks of phase 1 find them.
#pragma once

#include <cstdint>

#include "families/softmax/computation.h"
#include "plan/checks.h"

namespace acl_host {

// A tensor without dims has one, of one element.
void CheckAxis(const Argument& argument, int64_t dim);

// Of a tensor that is not empty, along a dim that was checked.
[[nodiscard]] AxisRows RowsOf(const Argument& argument, int64_t dim);

}  // namespace acl_host
