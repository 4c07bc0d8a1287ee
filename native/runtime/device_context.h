// A device's context, and the threads that have it current: ACL has one current context per thread.
#pragma once

#include <cstdint>

#include "acl_library.h"
#include "step_watch.h"

namespace aclgrad {

// Says that the calling thread is ours until it ends: nobody else calls ACL on it, so its context stays as we set it.
// An event loop's thread is not: other users of ACL in the process, such as torch_npu, may set theirs on it.
void OwnThisThread() noexcept;

class DeviceContext {
 public:
  // The context that aclrtSetDevice has made current on this thread. Throws AclError.
  DeviceContext(const AclLibrary& library, StepWatch& steps);
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  // Returns the code of aclrtSetCurrentContext, which a thread of ours calls only if it had another context.
  [[nodiscard]] int MakeCurrent() const noexcept;

 private:
  const AclLibrary& library_;
  StepWatch& steps_;
  aclrtContext handle_ = nullptr;
  // Never used again, unlike the address of a device, or the handle of a context after a reset.
  const uint64_t number_;
};

}  // namespace aclgrad
