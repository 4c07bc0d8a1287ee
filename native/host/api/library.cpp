// The ABI: start, end and version of the library, the errors of the calling thread, and the extension of CANN's
// functions.
#include <utility>

#include "api.h"
#include "device/runtime.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"
#include "plan/executor.h"

namespace acl_host {

void api::aclInit(const char* configPath) { Runtime::Start(configPath); }

void api::aclFinalize() { Runtime::Stop(); }

void api::aclFinalizeReference(uint64_t* refCount) {
  const uint64_t remaining = Runtime::Release();
  if (refCount != nullptr) *refCount = remaining;
}

// The operators have no state, so these two have nothing to do.
void api::aclnnInit(const char* /*configPath*/) {}

void api::aclnnFinalize() {}

void api::aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  int32_t& major = Required(majorVersion, "majorVersion");
  int32_t& minor = Required(minorVersion, "minorVersion");
  int32_t& patch = Required(patchVersion, "patchVersion");
  major = 1;
  minor = 14;
  patch = 0;
}

void api::aclrtGetRunMode(aclrtRunMode* runMode) { Required(runMode, "runMode") = ACL_HOST; }

void api::aclHostPointersUsable(int32_t* usable) {
  Required(usable, "usable") = Runtime::Current()->config().host_pointers ? 1 : 0;
}

void api::aclHostExecutorIsShort(const aclOpExecutor* executor, int32_t* is_short) {
  const aclOpExecutor& asked = Required<OperatorError>(executor, "executor", ACLNN_ERR_PARAM_NULLPTR);
  int32_t& answer = Required<OperatorError>(is_short, "is_short", ACLNN_ERR_PARAM_NULLPTR);
  // A fault may take any time.
  answer = asked.plan->time() == HostStream::Time::kShort && Runtime::Current()->config().faults.empty() ? 1 : 0;
}

}  // namespace acl_host

const char* aclrtGetSocName() {
  const char* name = nullptr;
  const aclError error = acl_host::GuardRuntime(
      __func__, [&] { name = acl_host::FactsOf(acl_host::Runtime::CurrentOrNew()->product()).soc_name; });
  return error == ACL_SUCCESS ? name : nullptr;
}

const char* aclGetRecentErrMsg() {
  auto& errors = acl_host::CurrentErrors();
  errors.returned = std::move(errors.recent);
  errors.recent.clear();
  return errors.returned.empty() ? nullptr : errors.returned.c_str();
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  return level == ACL_RT_THREAD_LEVEL ? acl_host::CurrentErrors().last : ACL_ERROR_INVALID_PARAM;
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) return ACL_ERROR_INVALID_PARAM;
  return std::exchange(acl_host::CurrentErrors().last, ACL_RT_SUCCESS);
}
