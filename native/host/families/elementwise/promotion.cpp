#include "families/elementwise/promotion.h"

#include <algorithm>
#include <iterator>

#include "tensors/elements.h"

namespace acl_host {
namespace {

bool IsComplex(aclDataType type) { return type == ACL_COMPLEX64 || type == ACL_COMPLEX128; }

bool IsDouble(aclDataType type) { return type == ACL_DOUBLE || type == ACL_COMPLEX128; }

}  // namespace

bool IsHalf(aclDataType type) { return type == ACL_FLOAT16 || type == ACL_BF16; }

bool IsWhole(aclDataType type) {
  const auto whole = {ACL_BOOL, ACL_UINT8, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64};
  return std::find(whole.begin(), whole.end(), type) != whole.end();
}

aclDataType Promoted(aclDataType one, aclDataType other) {
  if (one == other) return one;
  if (IsComplex(one) || IsComplex(other)) {
    return IsDouble(one) || IsDouble(other) ? ACL_COMPLEX128 : ACL_COMPLEX64;
  }
  if (IsWhole(one) != IsWhole(other)) return IsWhole(one) ? other : one;
  if (!IsWhole(one)) return IsDouble(one) || IsDouble(other) ? ACL_DOUBLE : ACL_FLOAT;
  if (std::min(one, other) == ACL_INT8 && std::max(one, other) == ACL_UINT8) return ACL_INT16;
  constexpr aclDataType kOrder[] = {ACL_BOOL, ACL_UINT8, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64};
  const auto place_of = [&](aclDataType type) { return std::find(std::begin(kOrder), std::end(kOrder), type); };
  return place_of(one) < place_of(other) ? other : one;
}

aclDataType PromotedWithNumber(aclDataType tensor, aclDataType number) {
  if (!IsWhole(tensor)) return tensor;
  if (!IsWhole(number)) return IsComplex(number) ? ACL_COMPLEX64 : ACL_FLOAT;
  return tensor == ACL_BOOL ? number : tensor;
}

bool CanCast(aclDataType from, aclDataType to) {
  if (IsComplex(from) && !IsComplex(to)) return false;
  if (!IsWhole(from) && IsWhole(to)) return false;
  return from == ACL_BOOL || to != ACL_BOOL;
}

Number NumberArgument::number() const {
  Number result{NumberOf(&scalar, name), 0};
  VisitNumberType(scalar.data_type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_same_v<T, Bool>) {
      result.integer = LoadElement<Bool>(scalar.value.data(), 0).value != 0 ? 1 : 0;
      result.real = static_cast<double>(result.integer);
    } else if constexpr (std::is_integral_v<T>) {
      result.integer = LoadElement<T>(scalar.value.data(), 0);
    }
  });
  return result;
}

}  // namespace acl_host
