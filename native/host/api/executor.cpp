// The ABI: executors between their two phases.
#include "plan/executor.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

#include "aclnn/acl_meta.h"
#include "device/runtime.h"
#include "errors/pointers.h"

using acl_host::GuardOperator;
using acl_host::OperatorError;
using acl_host::Required;
using acl_host::Runtime;

namespace {

// Not ACLNN_ERR_PARAM_NULLPTR: CANN returns this code in these functions.
template <typename T>
T& Given(T* pointer, const char* name) {
  return Required<OperatorError>(pointer, name, ACLNN_ERR_INNER_NULLPTR);
}

// Ignores the index: all of these operators are composite, and for their executors CANN replaces the address of the
// tensor itself.
aclnnStatus SetAddress(const char* function, aclOpExecutor* executor, aclTensor* tensor, void* address) {
  return GuardOperator(function, [&] {
    // In CANN's order: the tensor gets its address even if the call then fails.
    Given(tensor, "tensor").storage->address = address;
    (void)Given(executor, "executor");
  });
}

}  // namespace

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  return GuardOperator(__func__, [&] {
    aclOpExecutor& target = Given(executor, "executor");
    const auto runtime = Runtime::Current();
    const auto& excluded = runtime->config().not_repeatable;
    if (std::find(excluded.begin(), excluded.end(), target.called.name) != excluded.end()) {
      throw OperatorError(ACLNN_ERR_INNER, "executors of " + std::string(target.called.name) + " are not repeatable");
    }
    target.repeatable = true;
  });
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  return GuardOperator(__func__,
                       [&] { const std::unique_ptr<const aclOpExecutor> ending(&Given(executor, "executor")); });
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  return SetAddress(__func__, executor, tensor, addr);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  return SetAddress(__func__, executor, tensor, addr);
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  return SetAddress(__func__, executor, tensor, addr);
}

aclnnStatus AclSetInputTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  return SetAddress(__func__, executor, tensor, addr);
}

aclnnStatus AclSetOutputTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  return SetAddress(__func__, executor, tensor, addr);
}

aclnnStatus AclSetTensorAddr(aclOpExecutor* executor, const size_t /*index*/, aclTensor* tensor, void* addr) {
  return SetAddress(__func__, executor, tensor, addr);
}
