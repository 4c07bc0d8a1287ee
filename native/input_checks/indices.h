// Checks of indices into an array of known size, and of bools.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aclgrad {

// Throws InvalidValue unless each of count integers, of 4 or 8 bytes each, is at least 0 and below bound.
void CheckIndices(const void* indices, std::size_t count, std::size_t item_bytes, int64_t bound);

// Throws InvalidValue unless each of count bytes is 0 or 1: kernels take a bool for an index or a factor.
void CheckBools(const void* bools, std::size_t count);

}  // namespace aclgrad
