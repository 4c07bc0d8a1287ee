// The ABI: devices and contexts.
#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "api.h"
#include "device/runtime.h"
#include "device/wait.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"

namespace acl_host {
namespace {

// As CANN's, the options of the process outlast aclInit and aclFinalize; 0 if never set.
constexpr int32_t kProcessOptions = ACL_OPT_ENABLE_KERNEL_EARLY_START + 1;
std::array<std::atomic<int64_t>, kProcessOptions> process_options{};

void CheckPeer(int32_t id, int32_t peer_id) {
  if (id == peer_id) throw Error(ACL_ERROR_INVALID_PARAM, "device " + std::to_string(id) + " is no peer of itself");
  for (const int32_t each : {id, peer_id}) (void)Runtime::CurrentOrNew()->device(each);
}

constexpr int64_t kDeterminismLevels = 4;
constexpr int32_t kNotSupported = -1;

// Throws if there is no such option among the first count ones.
int64_t LimitOf(aclSysParamOpt opt, int32_t count) {
  const auto option = static_cast<int32_t>(opt);
  if (option < 0 || option >= count) {
    throw Error(ACL_ERROR_INVALID_PARAM, "there is no option " + std::to_string(option));
  }
  return opt == ACL_OPT_DETERMINISTIC ? kDeterminismLevels : 2;
}

void CheckOption(aclSysParamOpt opt, int64_t value, int32_t count) {
  const int64_t limit = LimitOf(opt, count);
  if (value >= 0 && value < limit) return;
  throw Error(ACL_ERROR_RT_PARAM_INVALID, "option " + std::to_string(static_cast<int>(opt)) +
                                              " takes values from 0 to " + std::to_string(limit - 1) + ", not " +
                                              std::to_string(value));
}

}  // namespace

void api::aclrtSetDevice(int32_t deviceId) {
  std::shared_ptr<Runtime> runtime;
  do {  // again if another thread's aclInit puts its own in place meanwhile
    runtime = Runtime::CurrentOrNew();
    const auto occurrence = runtime->faults().Next(Site::kSetDevice);
    if (occurrence.Has(FaultKind::kSetDeviceError)) {
      throw Error(occurrence.fault->code, "device " + std::to_string(deviceId) + " fails by the fault plan");
    }
    runtime->UseDevice(deviceId);
  } while (!Runtime::IsCurrent(runtime));
}

void api::aclrtResetDevice(int32_t deviceId) { Runtime::Current()->ReleaseDevice(deviceId); }

void api::aclrtResetDeviceForce(int32_t deviceId) { Runtime::Current()->ReleaseDeviceForce(deviceId); }

void api::aclrtGetDevice(int32_t* deviceId) {
  int32_t& id = Required(deviceId, "deviceId");
  const auto runtime = Runtime::CurrentOrNew();
  if (const auto context = runtime->OwnContextOrNull()) {
    id = context->device.id;
  } else if (const auto fallback = runtime->config().default_device) {
    id = *fallback;
  } else {
    throw UnkeptError(ACL_ERROR_RT_CONTEXT_NULL, Runtime::kNoContext);
  }
}

void api::aclrtGetDeviceCount(uint32_t* count) {
  Required(count, "count") = static_cast<uint32_t>(Runtime::CurrentOrNew()->device_count());
}

// All devices of a process use its memory.
void api::aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  CheckPeer(deviceId, peerDeviceId);
  Required(canAccessPeer, "canAccessPeer") = 1;
}

void api::aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  if (flags != 0) throw Error(ACL_ERROR_FEATURE_UNSUPPORTED, "flags must be 0, not " + std::to_string(flags));
  CheckPeer(Runtime::Current()->CurrentContext()->device.id, peerDeviceId);
}

void api::aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus* deviceStatus) {
  aclrtDeviceStatus& status = Required(deviceStatus, "deviceStatus");
  const bool lost = Runtime::Current()->device(deviceId).lost();
  status = lost ? ACL_RT_DEVICE_STATUS_ABNORMAL : ACL_RT_DEVICE_STATUS_NORMAL;
}

void api::aclrtSynchronizeDevice() { api::aclrtSynchronizeDeviceWithTimeout(-1); }

void api::aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  const auto deadline = DeadlineAfter(timeout);
  const auto runtime = Runtime::Current();
  const auto context = runtime->UsableContext();
  for (const auto& stream : runtime->StreamsOf(context->device)) {
    if (!stream->Synchronize(deadline)) {
      throw Error(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                  "the device was still at work after " + std::to_string(timeout) + " ms");
    }
  }
}

void api::aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  aclrtContext& handle = Required(context, "context");
  const auto runtime = Runtime::Current();
  handle = runtime->CreateContext(runtime->device(deviceId));
}

void api::aclrtDestroyContext(aclrtContext context) {
  CheckNotNull(context, "context");
  Runtime::Current()->DestroyContext(context);
}

void api::aclrtSetCurrentContext(aclrtContext context) {
  CheckNotNull(context, "context");
  Runtime::Current()->SetCurrentContext(context);
}

void api::aclrtGetCurrentContext(aclrtContext* context) {
  aclrtContext& handle = Required(context, "context");
  const auto current = Runtime::Current()->OwnContextOrNull();
  if (!current) throw UnkeptError(ACL_ERROR_RT_CONTEXT_NULL, Runtime::kNoContext);
  handle = current->handle;
}

void api::aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  CheckOption(opt, value, kContextOptions);
  Runtime::Current()->CurrentContext()->options[static_cast<size_t>(opt)] = value;
}

void api::aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  int64_t& result = Required(value, "value");
  (void)LimitOf(opt, kContextOptions);
  const int64_t set = Runtime::Current()->CurrentContext()->options[static_cast<size_t>(opt)];
  if (set == kNotSet) throw Error(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "the option was never set");
  result = set;
}

void api::aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  CheckOption(opt, value, kProcessOptions);
  process_options[static_cast<size_t>(opt)] = value;
}

void api::aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  int64_t& result = Required(value, "value");
  (void)LimitOf(opt, kProcessOptions);
  result = process_options[static_cast<size_t>(opt)];
}

void api::aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* /*flags*/, int32_t* active) {
  Required(active, "active") = Runtime::CurrentOrNew()->IsInUse(deviceId) ? 1 : 0;
}

void api::aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo* utilizationInfo) {
  aclrtUtilizationInfo& info = Required(utilizationInfo, "utilizationInfo");
  if (info.utilizationExtend != nullptr) throw Error(ACL_ERROR_INVALID_PARAM, "utilizationExtend must be null");
  // 100 % while a stream is at work; which of a card's units it would use, a processor cannot say.
  const int32_t percent = Runtime::Current()->IsAtWork(deviceId) ? 100 : 0;
  info = {percent, percent, 0, kNotSupported, nullptr};
}

// A limit for kernels, in microseconds, which a processor does not need; 0 stands for the longest.
void api::aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
  Required(actualTimeout, "actualTimeout") = timeout == 0 ? UINT64_MAX : timeout;
}

// The same in seconds.
void api::aclrtSetOpExecuteTimeOut(uint32_t /*timeout*/) {}

// A card may saturate instead of giving infinities; a processor computes as IEEE 754 says, so only that is accepted.
void api::aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  (void)Runtime::Current()->UsableContext();
  if (mode == ACL_RT_OVERFLOW_MODE_INFNAN) return;
  if (mode != ACL_RT_OVERFLOW_MODE_SATURATION) {
    throw Error(ACL_ERROR_RT_PARAM_INVALID, "there is no overflow mode " + std::to_string(static_cast<int>(mode)));
  }
  throw Error(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the host does not saturate");
}

// A processor does not watch for overflows.
void api::aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  if (flag > 1) throw Error(ACL_ERROR_INVALID_PARAM, "flag must be 0 or 1, not " + std::to_string(flag));
  (void)Runtime::Current()->FindStream(stream);
  if (flag == 1) throw Error(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the host does not watch for overflows");
}

}  // namespace acl_host
