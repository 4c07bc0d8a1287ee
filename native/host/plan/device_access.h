// The memory that a device can reach: all memory if host pointers are granted, otherwise, as on a card, only its own
// memory from aclrtMalloc.
#pragma once

#include <cstdint>
#include <vector>

#include "acl/acl_rt.h"
#include "device/runtime.h"
#include "plan/plan.h"

namespace acl_host {

// Each throws ACL_ERROR_RT_PARAM_INVALID, or ACLNN_ERR_PARAM_INVALID for a launch, if a side is in the wrong memory.
void CheckCopySides(Runtime& runtime, const void* dst, const void* src, uint64_t size_bytes, aclrtMemcpyKind kind);
void CheckSetSide(Runtime& runtime, const void* address, uint64_t size_bytes);
void CheckLaunchSides(Runtime& runtime, const HostDevice& device, const Plan& plan, const Plan::Addresses& addresses,
                      const void* workspace, uint64_t workspace_bytes);

}  // namespace acl_host
