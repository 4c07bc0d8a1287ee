#include "error.h"

#include "acl/acl_base.h"

namespace aclgrad {

AclError::AclError(int code, FaultClass fault, std::string call, std::string detail)
    : std::runtime_error(call + " returned " + std::to_string(code) + (detail.empty() ? "" : ": " + detail)),
      code_(code),
      fault_(fault),
      call_(std::move(call)),
      detail_(std::move(detail)) {}

NotBegun::NotBegun(std::string call, std::string why)
    : AclError(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, FaultClass::kNotBegun, std::move(call), std::move(why)) {}

OutOfMemory::OutOfMemory(std::size_t size_bytes, std::size_t allocated_bytes, std::size_t limit_bytes,
                         std::string detail)
    : AclError(ACL_ERROR_RT_MEMORY_ALLOCATION, "allocation of " + std::to_string(size_bytes) + " bytes",
               std::to_string(allocated_bytes) + " of at most " + std::to_string(limit_bytes) + " bytes are in use" +
                   (detail.empty() ? "" : "; " + detail)),
      size_bytes_(size_bytes),
      allocated_bytes_(allocated_bytes),
      limit_bytes_(limit_bytes) {}

WorkspaceTooLarge::WorkspaceTooLarge(std::size_t size)
    : std::runtime_error("the operator needs a workspace of " + std::to_string(size) +
                         " bytes, more than its call may have"),
      size_bytes(size) {}

InputFailed::InputFailed(std::size_t cause)
    : std::runtime_error("step " + std::to_string(cause) + " failed, whose outputs this one needs"), step(cause) {}

}  // namespace aclgrad
