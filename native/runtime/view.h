// Where the elements of a tensor are among those of its memory, if it is not row-major and all of it.
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
