// Elements in memory of any alignment, and the choice of a C++ type for a data type.
#ifndef ACL_HOST_ELEMENTS_H_
#define ACL_HOST_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "acl/acl_base.h"
#include "data_type.h"
#include "error.h"
#include "half.h"

namespace acl_host {

// Payloads may start at any byte, so elements are copied in and out; compilers make plain unaligned moves of it.
template <typename T>
[[nodiscard]] T LoadElement(const std::byte* base, int64_t index) {
  T element;
  std::memcpy(&element, base + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return element;
}

template <typename T>
void StoreElement(std::byte* base, int64_t index, T element) {
  std::memcpy(base + static_cast<size_t>(index) * sizeof(T), &element, sizeof(T));
}

// float, Float16 and BFloat16, seen as float.
template <typename T>
[[nodiscard]] float LoadFloat(const std::byte* base, int64_t index) {
  if constexpr (std::is_same_v<T, float>) {
    return LoadElement<float>(base, index);
  } else {
    return LoadElement<T>(base, index).ToFloat();
  }
}

template <typename T>
void StoreFloat(std::byte* base, int64_t index, float value) {
  if constexpr (std::is_same_v<T, float>) {
    StoreElement(base, index, value);
  } else {
    StoreElement(base, index, T::FromFloat(value));
  }
}

template <typename T>
struct TypeTag {
  using Type = T;
};

// Calls visit with the TypeTag of a floating-point type of up to 32 bits.
template <typename Visitor>
void VisitFloatType(aclDataType type, Visitor&& visit) {
  switch (type) {
    case ACL_FLOAT:
      return visit(TypeTag<float>{});
    case ACL_FLOAT16:
      return visit(TypeTag<Float16>{});
    case ACL_BF16:
      return visit(TypeTag<BFloat16>{});
    default:
      throw OperatorError(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "no kernel for " + DataTypeName(type));
  }
}

}  // namespace acl_host

#endif  // ACL_HOST_ELEMENTS_H_
