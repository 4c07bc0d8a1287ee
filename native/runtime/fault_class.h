// What the codes of ACL and aclnn mean for whoever made the call: the one table of them.
#pragma once

namespace aclgrad {

enum class FaultClass {
  kRequest,     // the call does not fit the operator; the device is as it was
  kMemory,      // trim, retry once, then fail that request alone
  kTimeout,     // a wait ended early; what was waited for goes on
  kDeviceLost,  // the context is poisoned: nothing more can be done in this process
  kInternal,    // anything else: the request failed, nothing is known of the device
};

[[nodiscard]] FaultClass ClassifyFault(int code) noexcept;

// What to tell the operator of a code beside the library's text; empty for most.
[[nodiscard]] const char* FaultHint(int code) noexcept;

// A code from the range of device faults that has no row: a device that answers it twice in a row is lost.
[[nodiscard]] bool IsUnknownDeviceFault(int code) noexcept;

// An aclnn code that may stand for one of the runtime, which is then the thread's last error.
[[nodiscard]] bool HidesRuntimeCode(int code) noexcept;

[[nodiscard]] const char* FaultClassName(FaultClass fault) noexcept;

}  // namespace aclgrad
