// The ABI: executors between their two phases.
#include "plan/executor.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

#include "api.h"
#include "device/runtime.h"
#include "errors/pointers.h"

namespace acl_host {
namespace {

// Not ACLNN_ERR_PARAM_NULLPTR: CANN returns this code in these functions.
template <typename T>
T& Given(T* pointer, const char* name) {
  return Required<OperatorError>(pointer, name, ACLNN_ERR_INNER_NULLPTR);
}

// Ignores the index: all of these operators are composite, and for their executors CANN replaces the address of the
// tensor itself.
void SetAddress(aclOpExecutor* executor, aclTensor* tensor, void* address) {
  // In CANN's order: the tensor gets its address even if the call then fails.
  Given(tensor, "tensor").storage->address = address;
  (void)Given(executor, "executor");
}

}  // namespace

void api::aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  aclOpExecutor& target = Given(executor, "executor");
  const auto runtime = Runtime::Current();
  const auto& excluded = runtime->config().not_repeatable;
  if (std::find(excluded.begin(), excluded.end(), target.called.name) != excluded.end()) {
    throw OperatorError(ACLNN_ERR_INNER, "executors of " + std::string(target.called.name) + " are not repeatable");
  }
  target.repeatable = true;
}

void api::aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  const std::unique_ptr<const aclOpExecutor> ending(&Given(executor, "executor"));
}

void api::aclSetInputTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  SetAddress(executor, tensor, addr);
}

void api::aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  SetAddress(executor, tensor, addr);
}

void api::aclSetTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  SetAddress(executor, tensor, addr);
}

void api::AclSetInputTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  SetAddress(executor, tensor, addr);
}

void api::AclSetOutputTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  SetAddress(executor, tensor, addr);
}

void api::AclSetTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  SetAddress(executor, tensor, addr);
}

}  // namespace acl_host
