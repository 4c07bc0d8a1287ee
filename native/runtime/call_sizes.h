// Checks the sizes of a call's tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "acl_library.h"

namespace aclgrad {

// Throws std::invalid_argument for an invalid shape or a size that overflows.
[[nodiscard]] std::size_t SizeBytes(const AclLibrary& library, const std::vector<int64_t>& shape, aclDataType dtype);

// Throws std::invalid_argument unless both are equal.
void ExpectSize(const char* tensor, std::size_t given_bytes, std::size_t needed_bytes);

}  // namespace aclgrad
