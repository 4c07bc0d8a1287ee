// The ABI: tensors.
#include "tensors/tensor.h"

#include <algorithm>
#include <memory>
#include <new>

#include "api.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"

namespace acl_host {
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

void api::aclDestroyTensor(const aclTensor* tensor) { const std::unique_ptr<const aclTensor> ending(tensor); }

void api::aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  CopyOut(Required<OperatorError>(tensor, "tensor").view_dims, viewDims, viewDimsNum, "viewDims");
}

void api::aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
  CopyOut(Required<OperatorError>(tensor, "tensor").storage_dims, storageDims, storageDimsNum, "storageDims");
}

void api::aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
  CopyOut(Required<OperatorError>(tensor, "tensor").strides, stridesValue, stridesNum, "stridesValue");
}

void api::aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  Required<OperatorError>(offset, "offset") = Required<OperatorError>(tensor, "tensor").offset;
}

void api::aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  Required<OperatorError>(format, "format") = Required<OperatorError>(tensor, "tensor").format;
}

void api::aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  Required<OperatorError>(dataType, "dataType") = Required<OperatorError>(tensor, "tensor").data_type;
}

void api::aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  Required<OperatorError>(tensor, "tensor").storage->address = addr;
}

void api::aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  Required<OperatorError>(addr, "addr") = Required<OperatorError>(tensor, "tensor").storage->address;
}

}  // namespace acl_host

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
  std::unique_ptr<aclTensor> tensor;
  const aclnnStatus status = acl_host::GuardOperator(__func__, [&] {
    acl_host::Dims view_dims = acl_host::CopyDims(viewDims, viewDimsNum, "viewDims");
    acl_host::Dims strides =
        stride == nullptr ? acl_host::ContiguousStrides(view_dims) : acl_host::Dims(stride, stride + viewDimsNum);
    acl_host::Dims storage_dims = acl_host::CopyDims(storageDims, storageDimsNum, "storageDims");
    tensor = std::make_unique<aclTensor>(aclTensor{std::move(view_dims), std::move(strides), offset,
                                                   std::move(storage_dims), dataType, format,
                                                   std::make_shared<acl_host::Storage>(acl_host::Storage{tensorData})});
  });
  return status == OK ? tensor.release() : nullptr;
}
