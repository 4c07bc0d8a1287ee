// The rules for memory that copies, fills and launches share, and misuses that cards answer with success and wrong
// results, as their users saw it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "work_ledger.h"

namespace acl_strict {

// Memory is charged, and kernels touch it, in steps of these bytes.
inline constexpr uint64_t kGranule = 32;
[[nodiscard]] inline uint64_t RoundUpToGranule(uint64_t size) { return (size + kGranule - 1) / kGranule * kGranule; }

// What kernels of this product may touch behind a tensor's last step.
[[nodiscard]] uint64_t PaddingBytes();

// Each reports and refuses a misuse: freed memory, or bytes beyond a block's end; a conflict with queued work.
void CheckReachable(const std::vector<Access>& accesses);
// The latter not with the work of the stream that makes the access, if one does.
void CheckUnused(const Access& access, const StreamName* own = nullptr);
[[noreturn]] void RefuseOutside(const std::string& name, const Access& access);

enum class Result { kRight, kWrongBytes, kNotANumber };

// What a kernel makes of operands and workspace. Reports memory of a device that is not the stream's, which the kernel
// reads and writes as nonsense; refuses memory of no device.
[[nodiscard]] Result CheckDevice(const std::vector<Access>& accesses, aclrtStream stream);

// Instead of a launch: fills what it would write, on its stream.
[[nodiscard]] aclnnStatus WriteWrong(Result result, const std::vector<Access>& accesses, aclrtStream stream);

// Once an executor was destroyed twice, each phase 1 of the process fails, of whatever operator.
void CheckNoDoubleDestroy();

}  // namespace acl_strict
