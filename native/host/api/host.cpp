// The ABI: this library's extension of CANN's.
#include "acl_host/acl_host_ext.h"
#include "device/runtime.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"

using acl_host::GuardRuntime;
using acl_host::Required;
using acl_host::Runtime;

aclError aclHostPointersUsable(int32_t* usable) {
  return GuardRuntime(__func__,
                      [&] { Required(usable, "usable") = Runtime::Current()->config().host_pointers ? 1 : 0; });
}
