// Max pooling itself: the maximum of each window, and where it was found.
#pragma once

#include <cstdint>

#include "families/max_pool/computation.h"
#include "plan/vector_levels.h"

namespace acl_host {

// The windows' cells lie apart by the dilation; the kernel is from the first of them to the last. Not a number is more
// than any number, and of several the last one is taken; of equal numbers the first one, as PyTorch does.
struct Maxima {
  MaxPool pool;
  Pair cells;  // of a window along each axis
  Pair dilation;
  aclDataType type;
};

// self -> maxima, and their positions or a mask of bits, of which all words are written.
template <VectorLevel>
struct MaxPoolForward {
  static void Run(const Maxima& maxima, const KernelArguments& arguments);
};

}  // namespace acl_host
