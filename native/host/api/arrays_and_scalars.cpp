// The ABI: arrays and scalars.
#include <cstddef>
#include <memory>
#include <string>

#include "aclnn/acl_meta.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"
#include "tensors/tensor.h"

using acl_host::GuardOperator;
using acl_host::OperatorError;
using acl_host::Required;

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
aclnnStatus GetSize(const char* function, const Array* array, uint64_t* size) {
  return GuardOperator(
      function, [&] { Required<OperatorError>(size, "size") = Required<OperatorError>(array, "array").values.size(); });
}

template <typename Object>
aclnnStatus Destroy(const Object* object) {
  const std::unique_ptr<const Object> ending(object);
  return OK;
}

}  // namespace

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return CreateArray<aclIntArray>(__func__, value, size);
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return CreateArray<aclBoolArray>(__func__, value, size);
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  std::unique_ptr<aclScalar> scalar;
  const aclnnStatus status = GuardOperator(__func__, [&] {
    const auto* const bytes = static_cast<const std::byte*>(value);
    const size_t size_bytes = aclDataTypeSize(dataType);
    acl_host::CheckNotNull<OperatorError>(value, "value");
    if (size_bytes == 0) {
      throw OperatorError(ACLNN_ERR_PARAM_INVALID, "dataType: there is no type " + std::to_string(dataType));
    }
    scalar = std::make_unique<aclScalar>(aclScalar{dataType, {bytes, bytes + size_bytes}});
  });
  return status == OK ? scalar.release() : nullptr;
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) { return Destroy(array); }

aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) { return Destroy(array); }

aclnnStatus aclDestroyScalar(const aclScalar* scalar) { return Destroy(scalar); }

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) { return GetSize(__func__, array, size); }

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) { return GetSize(__func__, array, size); }
