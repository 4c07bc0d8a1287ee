// Elements that change their type on the way from one view to another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl_base.h"
#include "plan/vector_levels.h"
#include "tensors/view_walk.h"

namespace acl_host {

// Elements become those of `via` first, which often is one of the other types. Numbers beyond the range of an integer
// type become its nearest one, and NaN 0; of an integer the lowest bits remain; a number is true unless it is 0; of a
// complex number the real part is taken where the other type is real.
struct Conversion {
  ViewWalk<2> walk;
  aclDataType from;
  aclDataType via;
  aclDataType to;
};

template <VectorLevel>
struct ConvertElements {
  // The units [begin, end) of the walk, given the addresses of the first elements.
  static void Run(const Conversion& conversion, const std::byte* from, std::byte* to, int64_t begin, int64_t end);
};

}  // namespace acl_host
