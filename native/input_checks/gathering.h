// Makes a row-major copy of a view in the host's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "view.h"

namespace aclgrad {

// The shape of a tensor, and how it lies over its bytes.
struct Gathering {
  std::vector<int64_t> shape;
  std::size_t item_bytes;
  View view;
};

// Returns the elements in row-major order. Throws std::invalid_argument for fewer bytes than the view is of.
[[nodiscard]] std::vector<std::byte> Gather(const Gathering& gathering, const void* data, std::size_t size_bytes);

}  // namespace aclgrad
