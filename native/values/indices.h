// Indices into something of a known size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aclgrad {

// Throws InvalidValue unless each of count 64-bit integers is at least 0 and below bound.
void CheckIndices(const void* indices, std::size_t count, int64_t bound);

}  // namespace aclgrad
