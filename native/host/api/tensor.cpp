// The ABI: tensors.
#include "tensors/tensor.h"

#include <algorithm>
#include <memory>
#include <new>

#include "aclnn/acl_meta.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"

using acl_host::Dims;
using acl_host::GuardOperator;
using acl_host::OperatorError;
using acl_host::Required;

namespace {

Dims CopyDims(const int64_t* dims, uint64_t count, const char* name) {
  return count == 0 ? Dims{} : Dims(&Required<OperatorError>(dims, name), dims + count);
}

// The caller releases the copy with delete[]: that is the ABI, so this is the one place with a bare new.
void CopyOut(const Dims& dims, int64_t** copy, uint64_t* count, const char* name) {
  int64_t*& target = Required<OperatorError>(copy, name);
  uint64_t& target_count = Required<OperatorError>(count, "the count");
  target = new (std::nothrow) int64_t[dims.size()];
  if (target == nullptr) throw OperatorError(ACLNN_ERR_INNER_NULLPTR, "the host is out of memory");
  std::copy(dims.begin(), dims.end(), target);
  target_count = dims.size();
}

}  // namespace

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
  std::unique_ptr<aclTensor> tensor;
  const aclnnStatus status = GuardOperator(__func__, [&] {
    Dims view_dims = CopyDims(viewDims, viewDimsNum, "viewDims");
    Dims strides = stride == nullptr ? acl_host::ContiguousStrides(view_dims) : Dims(stride, stride + viewDimsNum);
    Dims storage_dims = CopyDims(storageDims, storageDimsNum, "storageDims");
    tensor = std::make_unique<aclTensor>(aclTensor{std::move(view_dims), std::move(strides), offset,
                                                   std::move(storage_dims), dataType, format,
                                                   std::make_shared<acl_host::Storage>(acl_host::Storage{tensorData})});
  });
  return status == OK ? tensor.release() : nullptr;
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  const std::unique_ptr<const aclTensor> ending(tensor);
  return OK;
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  return GuardOperator(__func__, [&] {
    CopyOut(Required<OperatorError>(tensor, "tensor").view_dims, viewDims, viewDimsNum, "viewDims");
  });
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
  return GuardOperator(__func__, [&] {
    CopyOut(Required<OperatorError>(tensor, "tensor").storage_dims, storageDims, storageDimsNum, "storageDims");
  });
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
  return GuardOperator(__func__, [&] {
    CopyOut(Required<OperatorError>(tensor, "tensor").strides, stridesValue, stridesNum, "stridesValue");
  });
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return GuardOperator(
      __func__, [&] { Required<OperatorError>(offset, "offset") = Required<OperatorError>(tensor, "tensor").offset; });
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return GuardOperator(
      __func__, [&] { Required<OperatorError>(format, "format") = Required<OperatorError>(tensor, "tensor").format; });
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return GuardOperator(__func__, [&] {
    Required<OperatorError>(dataType, "dataType") = Required<OperatorError>(tensor, "tensor").data_type;
  });
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  return GuardOperator(__func__, [&] { Required<OperatorError>(tensor, "tensor").storage->address = addr; });
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  return GuardOperator(__func__, [&] {
    Required<OperatorError>(addr, "addr") = Required<OperatorError>(tensor, "tensor").storage->address;
  });
}
