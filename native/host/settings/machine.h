// What this process may use of the machine. root is the folder that has proc and sys.
#pragma once

#include <cstdint>
#include <filesystem>

namespace acl_host {

// The processors of the affinity mask, limited by the CPU quota of the process's control groups (version 1 or 2); at
// least 1. A quota of 1.5 processors counts as 2.
[[nodiscard]] int32_t UsableCpus(const std::filesystem::path& root = "/");

// What the devices may have together: three quarters of the machine's memory, or half of the smallest limit of the
// process's control groups (version 1 or 2) if that is less.
[[nodiscard]] uint64_t UsableMemoryBytes(const std::filesystem::path& root = "/");

}  // namespace acl_host
