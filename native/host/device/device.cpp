#include "device/device.h"

#include <algorithm>
#include <array>

#include "acl/acl_rt.h"

namespace acl_host {
namespace {

// clang-format off
constexpr std::array kFatal = {
    ACL_ERROR_RT_LOST_HEARTBEAT,
    ACL_ERROR_RT_AICORE_TIMEOUT, ACL_ERROR_RT_AICORE_EXCEPTION, ACL_ERROR_RT_AICORE_TRAP_EXCEPTION,
    ACL_ERROR_RT_AICPU_TIMEOUT, ACL_ERROR_RT_AICPU_EXCEPTION,
    ACL_ERROR_RT_VECTOR_CORE_TIMEOUT, ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION,
    ACL_ERROR_RT_DEVICE_MEM_ERROR, ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR, ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR,
    ACL_ERROR_RT_LINK_ERROR, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
    ACL_ERROR_RT_DRV_INTERNAL_ERROR, ACL_ERROR_RT_AICPU_INTERNAL_ERROR, ACL_ERROR_RT_SOCKET_CLOSE,
};
// clang-format on

}  // namespace

void Device::Fail(aclError code, const std::string& message) {
  if (std::find(kFatal.begin(), kFatal.end(), code) != kFatal.end()) {
    const std::lock_guard<std::mutex> lock(loss_mutex_);
    if (!lost()) {  // the first loss is the one to report
      loss_message_ = message;
      lost_code_ = code;
    }
  }
  throw Error(code, message);
}

void Device::ThrowLost(aclError code) const {
  const std::lock_guard<std::mutex> lock(loss_mutex_);
  throw Error(code, "device " + std::to_string(id) + " has failed (" + loss_message_ +
                        "); only aclrtResetDeviceForce or aclFinalize help");
}

}  // namespace acl_host
