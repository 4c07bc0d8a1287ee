#include "device/host_device.h"

#include <algorithm>
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

bool IsOfDevice(aclError code) {
  return std::any_of(std::begin(kOfDevice), std::end(kOfDevice),
                     [code](const Codes& each) { return each.first <= code && code <= each.last; });
}

}  // namespace

void HostDevice::Record(const Error& failure) {
  if (IsOfDevice(failure.code())) Lose(failure);
}

void HostDevice::RecordOfTask(const Error& failure) {
  if (stops_on_failure_ || IsOfDevice(failure.code())) Lose(failure);
}

void HostDevice::Lose(const Error& failure) {
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
