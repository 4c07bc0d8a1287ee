// The rules for memory that copies, fills and launches share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "work_ledger.h"

namespace acl_strict {

// Memory is charged, and kernels touch it, in steps of these bytes.
inline constexpr uint64_t kGranule = 32;
[[nodiscard]] inline uint64_t RoundUpToGranule(uint64_t size) { return (size + kGranule - 1) / kGranule * kGranule; }

// What kernels of this product may touch behind a tensor's last step.
[[nodiscard]] uint64_t PaddingBytes();

// Each reports and refuses a misuse: freed memory, or bytes beyond a block's end; a conflict with queued work.
void CheckReachable(const std::vector<Access>& accesses);
void CheckUnused(const Access& access);
[[noreturn]] void RefuseOutside(const std::string& name, const Access& access);

}  // namespace acl_strict
