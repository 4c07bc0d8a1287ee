// Misuses that cards answer with success and wrong results, as their users saw it.
#pragma once

#include <vector>

#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "work_ledger.h"

namespace acl_strict {

enum class Result { kRight, kWrongBytes, kNotANumber };

// What a kernel makes of operands and workspace. Reports memory of a device that is not the stream's, which the kernel
// reads and writes as nonsense; refuses memory of no device.
[[nodiscard]] Result CheckDevice(const std::vector<Access>& accesses, aclrtStream stream);

// Instead of a launch: fills what it would write, on its stream.
[[nodiscard]] aclnnStatus WriteWrong(Result result, const std::vector<Access>& accesses, aclrtStream stream);

// Once an executor was destroyed twice, each phase 1 of the process fails, of whatever operator.
void CheckNoDoubleDestroy();

}  // namespace acl_strict
