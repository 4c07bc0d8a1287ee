// The one check of pointers that must not be null.
#pragma once

#include <cstdint>
#include <string>

#include "api/error.h"
#include "strict/strict.h"

namespace acl_host {

// Throws Failure, with the code that its functions answer null pointers with, unless another is given.
template <typename Failure = Error>
void CheckNotNull(const void* pointer, const char* name, int32_t code = Failure::kNull) {
  if (pointer == nullptr) throw Failure(code, std::string(name) + " must not be null");
}

// The same; in strict mode an object that has ended is refused too.
template <typename Failure = Error, typename T>
[[nodiscard]] T& Required(T* pointer, const char* name, int32_t code = Failure::kNull) {
  CheckNotNull<Failure>(pointer, name, code);
  CheckAlive(pointer);
  return *pointer;
}

}  // namespace acl_host
