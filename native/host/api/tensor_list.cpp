// The ABI: lists of tensors.
#include <algorithm>
#include <memory>

#include "api.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"
#include "tensors/tensor.h"

namespace acl_host {

void api::aclDestroyTensorList(const aclTensorList* array) { const std::unique_ptr<const aclTensorList> ending(array); }

void api::aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size) {
  Required<OperatorError>(size, "size") = Required<OperatorError>(tensorList, "tensorList").tensors.size();
}

}  // namespace acl_host

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  std::unique_ptr<aclTensorList> list;
  const aclnnStatus status = acl_host::GuardOperator(__func__, [&] {
    list = std::make_unique<aclTensorList>();
    if (size == 0) return;
    acl_host::CheckNotNull<acl_host::OperatorError>(value, "value");
    list->tensors.resize(size);
    // Nothing fails from here on, so that tensors of a list that is not made stay the caller's.
    std::transform(value, value + size, list->tensors.begin(),
                   [](const aclTensor* tensor) { return std::unique_ptr<const aclTensor>(tensor); });
  });
  return status == OK ? list.release() : nullptr;
}
