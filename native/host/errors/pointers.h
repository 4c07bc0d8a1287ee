// The one check of pointers that must not be null.
#pragma once

#include <cstdint>
#include <string>

#include "errors/exceptions.h"

namespace acl_host {

// Throws Failure, by default with the code that its functions return for null pointers.
template <typename Failure = Error>
void CheckNotNull(const void* pointer, const char* name, int32_t code = Failure::kNull) {
  if (pointer == nullptr) throw Failure(code, std::string(name) + " must not be null");
}

template <typename Failure = Error, typename T>
[[nodiscard]] T& Required(T* pointer, const char* name, int32_t code = Failure::kNull) {
  CheckNotNull<Failure>(pointer, name, code);
  return *pointer;
}

}  // namespace acl_host
