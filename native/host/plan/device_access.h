// What a device can reach. With host pointers granted that is everything; without them, as with a card, only the memory
// that aclrtMalloc gave out on it.
#pragma once

#include <cstdint>
#include <vector>

#include "acl/acl_rt.h"
#include "device/runtime.h"
#include "plan/plan.h"
#include "strict/memory_ledger.h"

namespace acl_host {

// Each throws ACL_ERROR_RT_PARAM_INVALID, or ACLNN_ERR_PARAM_INVALID for a launch, if a side is not where it has to be.
void CheckCopySides(Runtime& runtime, const void* dst, const void* src, uint64_t size_bytes, aclrtMemcpyKind kind);
// Of a copy that a stream makes: what CANN forbids for it, or did until lately.
void CheckAsynchronous(Runtime& runtime, const void* dst, const void* src, aclrtMemcpyKind kind);
void CheckSetSide(Runtime& runtime, const void* address, uint64_t size_bytes);
void CheckLaunchSides(Runtime& runtime, const Device& device, const Plan& plan, const Plan::Addresses& addresses,
                      const void* workspace, uint64_t workspace_bytes);

// Strict mode: each operand has to be aligned, and the bytes behind it that kernels may touch have to be its own.
void CheckOperands(Runtime& runtime, const std::vector<Access>& operands);

}  // namespace acl_host
