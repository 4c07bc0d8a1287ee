// The ABI: start, end and version.
#include "device/runtime.h"

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"

using acl_host::GuardRuntime;
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
