#include "device/host_device.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "acl/acl_rt.h"

namespace acl_host {
namespace {

struct Codes {
  aclError first;
  aclError last;
};

// States of the device: every later call returns the code.
constexpr Codes kOfDevice[] = {
    {ACL_ERROR_RT_DEVICE_TASK_ABORT, ACL_ERROR_RT_STREAM_ABORT},
    {ACL_ERROR_RT_LOST_HEARTBEAT, ACL_ERROR_RT_LOST_HEARTBEAT},
    {ACL_ERROR_RT_DEV_SETUP_ERROR, ACL_ERROR_RT_DEV_SETUP_ERROR},
    {ACL_ERROR_RT_DEVICE_MEM_ERROR, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR},
    {ACL_ERROR_RT_DRV_INTERNAL_ERROR, 507902},
    {507904, 507904},
    {507914, 507916},
};

// Failures of one stream's task: runtime, scheduler, copies and kernels.
constexpr Codes kOfTasks[] = {
    {ACL_ERROR_RT_INTERNAL_ERROR, ACL_ERROR_RT_TS_ERROR},
    {ACL_ERROR_RT_MODEL_EXECUTE, ACL_ERROR_RT_MODEL_EXECUTE},
    {ACL_ERROR_RT_SYSTEM_DMA_ERROR, 507020},
    {ACL_ERROR_RT_VECTOR_CORE_TIMEOUT, ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION},
    {507042, 507045},
    {507048, 507050},
};

template <std::size_t count>
bool IsAmong(const Codes (&codes)[count], aclError code) {
  return std::any_of(std::begin(codes), std::end(codes),
                     [code](const Codes& each) { return each.first <= code && code <= each.last; });
}

}  // namespace

void HostDevice::Record(const Error& failure) {
  const bool is_fatal = IsAmong(kOfDevice, failure.code()) || (stops_on_failure_ && IsAmong(kOfTasks, failure.code()));
  if (!is_fatal) return;
  const std::lock_guard<std::mutex> lock(loss_mutex_);
  if (lost()) return;  // the first loss is the one to report
  loss_message_ = failure.what();
  lost_code_ = failure.code();
}

void HostDevice::ThrowLost(aclError code) const {
  const std::lock_guard<std::mutex> lock(loss_mutex_);
  throw Error(code, "device " + std::to_string(id) + " has failed (" + loss_message_ +
                        "); only aclrtResetDeviceForce or aclFinalize help");
}

}  // namespace acl_host
