// Elements in memory of any alignment, and the choice of a C++ type for a data type.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "acl/acl_base.h"
#include "errors/exceptions.h"
#include "tensors/data_type.h"
#include "tensors/half.h"

namespace acl_host {

// Payloads may start at any byte, so elements are copied in and out; compilers turn this into plain unaligned moves.
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

// The type of sums of T: float for the 16-bit types, which have too few digits for a sum.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float, T>;

template <typename T>
[[nodiscard]] Wide<T> LoadWide(const std::byte* base, int64_t index) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    return LoadElement<T>(base, index);
  } else {
    return LoadElement<T>(base, index).ToFloat();
  }
}

template <typename T>
void StoreRounded(std::byte* base, int64_t index, Wide<T> value) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
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

// The same, with the types of 64 and 128 bits: DOUBLE, COMPLEX64 and COMPLEX128.
template <typename Visitor>
void VisitFloatOrComplexType(aclDataType type, Visitor&& visit) {
  switch (type) {
    case ACL_DOUBLE:
      return visit(TypeTag<double>{});
    case ACL_COMPLEX64:
      return visit(TypeTag<std::complex<float>>{});
    case ACL_COMPLEX128:
      return visit(TypeTag<std::complex<double>>{});
    default:
      return VisitFloatType(type, std::forward<Visitor>(visit));
  }
}

template <typename T>
constexpr bool kIsComplex = false;
template <typename T>
constexpr bool kIsComplex<std::complex<T>> = true;

// An element of BOOL, which is false if it is 0.
struct Bool {
  uint8_t value;
};

// The same, with BOOL and the integers that operators compute with.
template <typename Visitor>
void VisitNumberType(aclDataType type, Visitor&& visit) {
  switch (type) {
    case ACL_INT8:
      return visit(TypeTag<int8_t>{});
    case ACL_INT16:
      return visit(TypeTag<int16_t>{});
    case ACL_INT32:
      return visit(TypeTag<int32_t>{});
    case ACL_INT64:
      return visit(TypeTag<int64_t>{});
    case ACL_UINT8:
      return visit(TypeTag<uint8_t>{});
    case ACL_BOOL:
      return visit(TypeTag<Bool>{});
    default:
      return VisitFloatOrComplexType(type, std::forward<Visitor>(visit));
  }
}

// Calls visit with the TypeTag of a type of the data type's size, for code that only moves elements.
template <typename Visitor>
void VisitElementSize(aclDataType type, Visitor&& visit) {
  switch (aclDataTypeSize(type)) {
    case 1:
      return visit(TypeTag<uint8_t>{});
    case 2:
      return visit(TypeTag<uint16_t>{});
    case 4:
      return visit(TypeTag<uint32_t>{});
    case 8:
      return visit(TypeTag<uint64_t>{});
    case 16:
      return visit(TypeTag<std::complex<double>>{});
    default:
      throw OperatorError(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "no kernel for " + DataTypeName(type));
  }
}

}  // namespace acl_host
