// How a tensor lies over memory that holds more, fewer or other elements than its own in row-major order.
#pragma once

#include <cstdint>
#include <vector>

namespace aclgrad {

// Counts elements. No element of the tensor lies outside of the memory: whoever makes a view has checked that.
struct View {
  int64_t offset = 0;
  std::vector<int64_t> strides;  // one for each dimension
  int64_t count = 0;             // of the memory
};

}  // namespace aclgrad
