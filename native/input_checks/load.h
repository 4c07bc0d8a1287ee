// Payloads may start at any byte, so values are copied out of them.
#pragma once

#include <cstddef>
#include <cstring>

namespace aclgrad {

template <typename T>
[[nodiscard]] T Load(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace aclgrad
