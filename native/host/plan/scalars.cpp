#include "plan/scalars.h"

#include <cstdint>
#include <string>

#include "errors/pointers.h"
#include "plan/checks.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

template <typename T>
double NumberAs(const aclScalar& scalar) {
  return static_cast<double>(LoadWide<T>(scalar.value.data(), 0));
}

}  // namespace

double NumberOf(const aclScalar* pointer, const char* name) {
  const aclScalar& scalar = Required<OperatorError>(pointer, name);
  switch (scalar.data_type) {
    case ACL_FLOAT:
      return NumberAs<float>(scalar);
    case ACL_FLOAT16:
      return NumberAs<Float16>(scalar);
    case ACL_BF16:
      return NumberAs<BFloat16>(scalar);
    case ACL_DOUBLE:
      return NumberAs<double>(scalar);
    case ACL_INT8:
      return NumberAs<int8_t>(scalar);
    case ACL_INT16:
      return NumberAs<int16_t>(scalar);
    case ACL_INT32:
      return NumberAs<int32_t>(scalar);
    case ACL_INT64:
      return NumberAs<int64_t>(scalar);
    case ACL_UINT8:
    case ACL_BOOL:
      return NumberAs<uint8_t>(scalar);
    default:
      FailInvalid(std::string(name) + ": expected a real number, got " + DataTypeName(scalar.data_type));
  }
}

}  // namespace acl_host
