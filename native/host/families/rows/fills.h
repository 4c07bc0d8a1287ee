// Plans that write a number to every element of some outputs, as CANN answers reductions of nothing.
#pragma once

#include <vector>

#include "plan/checks.h"

namespace acl_host {

// Of FLOAT, FLOAT16 or BF16.
struct Fill {
  Argument output;
  float value;
};

// Does nothing with outputs without elements.
[[nodiscard]] Plan FillsOf(const std::vector<Fill>& fills);

}  // namespace acl_host
