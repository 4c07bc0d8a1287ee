// The ABI: this library's extension of CANN's.
#include "acl_host/acl_host_ext.h"
#include "device/runtime.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"
#include "plan/executor.h"

using acl_host::GuardOperator;
using acl_host::GuardRuntime;
using acl_host::HostStream;
using acl_host::OperatorError;
using acl_host::Required;
using acl_host::Runtime;

aclError aclHostPointersUsable(int32_t* usable) {
  return GuardRuntime(__func__,
                      [&] { Required(usable, "usable") = Runtime::Current()->config().host_pointers ? 1 : 0; });
}

aclnnStatus aclHostExecutorIsShort(const aclOpExecutor* executor, int32_t* is_short) {
  return GuardOperator(__func__, [&] {
    const aclOpExecutor& asked = Required<OperatorError>(executor, "executor", ACLNN_ERR_PARAM_NULLPTR);
    int32_t& answer = Required<OperatorError>(is_short, "is_short", ACLNN_ERR_PARAM_NULLPTR);
    // A fault may take any time.
    answer = asked.plan->time() == HostStream::Time::kShort && Runtime::Current()->config().faults.empty() ? 1 : 0;
  });
}
