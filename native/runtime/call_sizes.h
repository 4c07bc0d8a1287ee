// Sizes of the tensors of a call, checked, and what tells one call from another.
#pragma once

#include <cstddef>
#include <string>

#include "acl_library.h"
#include "operator_call.h"

namespace aclgrad {

// Throws std::invalid_argument for a shape that is none or whose size overflows.
[[nodiscard]] std::size_t SizeBytes(const AclLibrary& library, const std::vector<int64_t>& shape, aclDataType dtype);

// Throws std::invalid_argument unless both are equal.
void ExpectSize(const char* tensor, std::size_t given_bytes, std::size_t needed_bytes);

// Equal for calls whose executors differ in nothing but addresses: operator, shapes, data types and attributes. What
// else an executor has baked in (strides, formats, determinism, device, stream) is the same for all calls of a stream.
[[nodiscard]] std::string CacheKey(const OperatorCall& call);

}  // namespace aclgrad
