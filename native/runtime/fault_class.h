// The one table of what the codes of ACL and aclnn mean for a call.
#pragma once

#include <string>

namespace aclgrad {

enum class FaultClass {
  // The call does not fit the operator, or this chip or CANN lacks the operator or its data type. Nothing was launched;
  // the device is as it was.
  kRefused,
  kMemory,      // trim, retry once, then fail that request alone
  kStreams,     // all processes on the device together use all of its streams; that request alone failed
  kTimeout,     // a wait ended early; the work goes on
  kNotBegun,    // no code has it: the work waited until its deadline, or its client left; the device is as it was
  kDeviceLost,  // the context is poisoned: this process cannot use the device any more
  kInternal,    // anything else: the request failed, the state of the device is unknown
};

[[nodiscard]] FaultClass ClassifyFault(int code) noexcept;

// The same for phase 1, which launches nothing: every code of aclnn itself is a refusal there. In phase 2 an operator
// of several kernels may fail after the first of them was launched.
[[nodiscard]] FaultClass ClassifyPhase1Fault(int code) noexcept;

// A hint for the person who runs the server, added to the library's text; empty for most codes. call names the function
// or the phase.
[[nodiscard]] std::string FaultHint(int code, const char* call);

// True for a code in the range of device faults that has no row: a device that returns one twice in a row is lost.
[[nodiscard]] bool IsUnknownDeviceFault(int code) noexcept;

// True for an aclnn code that may hide a runtime code, which is then the thread's last error.
[[nodiscard]] bool HidesRuntimeCode(int code) noexcept;

[[nodiscard]] const char* FaultClassName(FaultClass fault) noexcept;

}  // namespace aclgrad
