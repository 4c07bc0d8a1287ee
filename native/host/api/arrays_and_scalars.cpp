// The ABI: arrays and scalars.
#include <cstddef>
#include <memory>
#include <string>

#include "api.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"
#include "tensors/tensor.h"

namespace acl_host {
namespace {

template <typename Array, typename Value>
Array* CreateArray(const char* function, const Value* value, uint64_t size) {
  std::unique_ptr<Array> array;
  const aclnnStatus status = GuardOperator(function, [&] {
    array = std::make_unique<Array>();
    if (size != 0) array->values.assign(&Required<OperatorError>(value, "value"), value + size);
  });
  return status == OK ? array.release() : nullptr;
}

template <typename Array>
void GetSize(const Array* array, uint64_t* size) {
  Required<OperatorError>(size, "size") = Required<OperatorError>(array, "array").values.size();
}

}  // namespace

void api::aclDestroyIntArray(const aclIntArray* array) { const std::unique_ptr<const aclIntArray> ending(array); }

void api::aclDestroyBoolArray(const aclBoolArray* array) { const std::unique_ptr<const aclBoolArray> ending(array); }

void api::aclDestroyScalar(const aclScalar* scalar) { const std::unique_ptr<const aclScalar> ending(scalar); }

void api::aclGetIntArraySize(const aclIntArray* array, uint64_t* size) { GetSize(array, size); }

void api::aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) { GetSize(array, size); }

}  // namespace acl_host

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return acl_host::CreateArray<aclIntArray>(__func__, value, size);
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return acl_host::CreateArray<aclBoolArray>(__func__, value, size);
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  std::unique_ptr<aclScalar> scalar;
  const aclnnStatus status = acl_host::GuardOperator(__func__, [&] {
    const auto* const bytes = static_cast<const std::byte*>(value);
    const size_t size_bytes = aclDataTypeSize(dataType);
    acl_host::CheckNotNull<acl_host::OperatorError>(value, "value");
    if (size_bytes == 0) {
      throw acl_host::OperatorError(ACLNN_ERR_PARAM_INVALID, "dataType: there is no type " + std::to_string(dataType));
    }
    scalar = std::make_unique<aclScalar>(aclScalar{dataType, {bytes, bytes + size_bytes}});
  });
  return status == OK ? scalar.release() : nullptr;
}
