// The memory that a device can reach: all memory if host pointers are granted, otherwise, as on a card, only its own
// memory from aclrtMalloc.
#pragma once

#include <cstdint>
#include <vector>

#include "acl/acl_rt.h"
#include "device/runtime.h"
#include "plan/plan.h"
#include "strict/memory_ledger.h"

namespace acl_host {

// Each throws ACL_ERROR_RT_PARAM_INVALID, or ACLNN_ERR_PARAM_INVALID for a launch, if a side is in the wrong memory.
void CheckCopySides(Runtime& runtime, const void* dst, const void* src, uint64_t size_bytes, aclrtMemcpyKind kind);
// Checks a copy that a stream makes for everything that some release of CANN forbids.
void CheckAsynchronous(Runtime& runtime, const void* dst, const void* src, aclrtMemcpyKind kind);
void CheckSetSide(Runtime& runtime, const void* address, uint64_t size_bytes);
void CheckLaunchSides(Runtime& runtime, const HostDevice& device, const Plan& plan, const Plan::Addresses& addresses,
                      const void* workspace, uint64_t workspace_bytes);

// Strict mode: each operand must be aligned and must own the bytes behind it that kernels may touch.
void CheckOperands(Runtime& runtime, const std::vector<Access>& operands);

}  // namespace acl_host
