// The ABI: devices and contexts.
#include "acl/acl_rt.h"
#include "device/runtime.h"
#include "device/wait.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"

using acl_host::Context;
using acl_host::DeadlineAfter;
using acl_host::Error;
using acl_host::GuardRuntime;
using acl_host::Required;
using acl_host::Runtime;

namespace {

void SynchronizeDevice(int32_t timeout_ms) {
  const auto deadline = DeadlineAfter(timeout_ms);
  const auto runtime = Runtime::Current();
  const auto context = runtime->UsableContext();
  for (const auto& stream : runtime->StreamsOf(context->device)) {
    if (!stream->Synchronize(deadline)) {
      throw Error(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                  "the device was still at work after " + std::to_string(timeout_ms) + " ms");
    }
  }
}

std::atomic<int64_t>& Option(Context& context, aclSysParamOpt opt) {
  switch (opt) {
    case ACL_OPT_DETERMINISTIC:
      return context.deterministic;
    case ACL_OPT_ENABLE_DEBUG_KERNEL:
      return context.debug_kernel;
  }
  throw Error(ACL_ERROR_RT_PARAM_INVALID, "there is no option " + std::to_string(static_cast<int>(opt)));
}

}  // namespace

aclError aclrtSetDevice(int32_t deviceId) {
  return GuardRuntime(__func__, [&] {
    const auto runtime = Runtime::Current();
    const auto occurrence = runtime->faults().Next(acl_host::Site::kSetDevice);
    if (occurrence.Has(acl_host::FaultKind::kSetDeviceError)) {
      throw Error(occurrence.fault->code, "device " + std::to_string(deviceId) + " fails by the fault plan");
    }
    runtime->UseDevice(deviceId);
  });
}

aclError aclrtResetDevice(int32_t deviceId) {
  return GuardRuntime(__func__, [&] { Runtime::Current()->ReleaseDevice(deviceId); });
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
  return GuardRuntime(__func__, [&] { Runtime::Current()->ReleaseDeviceForce(deviceId); });
}

aclError aclrtGetDevice(int32_t* deviceId) {
  return GuardRuntime(__func__,
                      [&] { Required(deviceId, "deviceId") = Runtime::Current()->CurrentContext()->device.id; });
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  return GuardRuntime(__func__,
                      [&] { Required(count, "count") = static_cast<uint32_t>(Runtime::Current()->device_count()); });
}

aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus* deviceStatus) {
  return GuardRuntime(__func__, [&] {
    aclrtDeviceStatus& status = Required(deviceStatus, "deviceStatus");
    const bool lost = Runtime::Current()->device(deviceId).lost();
    status = lost ? ACL_RT_DEVICE_STATUS_ABNORMAL : ACL_RT_DEVICE_STATUS_NORMAL;
  });
}

aclError aclrtSynchronizeDevice() {
  return GuardRuntime(__func__, [] { SynchronizeDevice(-1); });
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  return GuardRuntime(__func__, [&] { SynchronizeDevice(timeout); });
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  return GuardRuntime(__func__, [&] {
    aclrtContext& handle = Required(context, "context");
    const auto runtime = Runtime::Current();
    handle = runtime->CreateContext(runtime->device(deviceId));
  });
}

aclError aclrtDestroyContext(aclrtContext context) {
  return GuardRuntime(__func__, [&] { Runtime::Current()->DestroyContext(context); });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  return GuardRuntime(__func__, [&] { Runtime::Current()->SetCurrentContext(context); });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return GuardRuntime(__func__, [&] { Required(context, "context") = Runtime::Current()->CurrentContext()->handle; });
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return GuardRuntime(__func__, [&] { Option(*Runtime::Current()->CurrentContext(), opt) = value; });
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return GuardRuntime(__func__, [&] {
    int64_t& result = Required(value, "value");
    const int64_t set = Option(*Runtime::Current()->CurrentContext(), opt);
    if (set == Context::kNotSet) throw Error(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "the option was never set");
    result = set;
  });
}
