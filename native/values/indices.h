// Checks of indices into an array of known size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aclgrad {

// Throws InvalidValue unless each of count integers, of 4 or 8 bytes each, is at least 0 and below bound.
void CheckIndices(const void* indices, std::size_t count, std::size_t item_bytes, int64_t bound);

}  // namespace aclgrad
