// The ABI: start, end and version of the library, the errors of the calling thread, and the extension of CANN's
// functions.
#include <utility>

#include "acl/acl.h"
#include "acl_host/acl_host_ext.h"
#include "aclnn/aclnn_base.h"
#include "device/runtime.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"
#include "plan/executor.h"

using acl_host::CurrentErrors;
using acl_host::GuardOperator;
using acl_host::GuardRuntime;
using acl_host::HostStream;
using acl_host::OperatorError;
using acl_host::Required;
using acl_host::Runtime;

aclError aclInit(const char* configPath) {
  return GuardRuntime(__func__, [&] { Runtime::Start(configPath); });
}

aclError aclFinalize() {
  return GuardRuntime(__func__, [] { Runtime::Stop(); });
}

aclError aclFinalizeReference(uint64_t* refCount) {
  return GuardRuntime(__func__, [&] {
    const uint64_t remaining = Runtime::Release();
    if (refCount != nullptr) *refCount = remaining;
  });
}

// The operators have no state, so these two have nothing to do.
aclnnStatus aclnnInit(const char* /*configPath*/) { return OK; }

aclnnStatus aclnnFinalize() { return OK; }

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  return GuardRuntime(__func__, [&] {
    int32_t& major = Required(majorVersion, "majorVersion");
    int32_t& minor = Required(minorVersion, "minorVersion");
    int32_t& patch = Required(patchVersion, "patchVersion");
    major = 1;
    minor = 14;
    patch = 0;
  });
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  return GuardRuntime(__func__, [&] { Required(runMode, "runMode") = ACL_HOST; });
}

const char* aclrtGetSocName() {
  const char* name = nullptr;
  const aclError error = GuardRuntime(__func__, [&] { name = FactsOf(Runtime::CurrentOrNew()->product()).soc_name; });
  return error == ACL_SUCCESS ? name : nullptr;
}

const char* aclGetRecentErrMsg() {
  auto& errors = CurrentErrors();
  errors.returned = std::move(errors.recent);
  errors.recent.clear();
  return errors.returned.empty() ? nullptr : errors.returned.c_str();
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  return level == ACL_RT_THREAD_LEVEL ? CurrentErrors().last : ACL_ERROR_INVALID_PARAM;
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) return ACL_ERROR_INVALID_PARAM;
  return std::exchange(CurrentErrors().last, ACL_RT_SUCCESS);
}

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
