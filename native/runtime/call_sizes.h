// Checks the sizes of a call's tensors, and computes the key that distinguishes calls.
#pragma once

#include <cstddef>
#include <string>

#include "acl_library.h"
#include "operator_call.h"

namespace aclgrad {

// Throws std::invalid_argument for an invalid shape or a size that overflows.
[[nodiscard]] std::size_t SizeBytes(const AclLibrary& library, const std::vector<int64_t>& shape, aclDataType dtype);

// Throws std::invalid_argument unless both are equal.
void ExpectSize(const char* tensor, std::size_t given_bytes, std::size_t needed_bytes);

// Made of the operator, shapes, data types and attributes: calls with the same key differ only in addresses, so they
// can share an executor. Everything else in an executor (strides, formats, determinism, device, stream) is the same for
// all calls of a stream.
[[nodiscard]] std::string CacheKey(const OperatorCall& call);

}  // namespace aclgrad
