// The number of processors that this process may use.
#pragma once

#include <cstdint>
#include <filesystem>

namespace acl_host {

// The processors of the affinity mask, limited by the CPU quota of the process's control groups (version 1 or 2); at
// least 1. A quota of 1.5 processors counts as 2. root is the folder that has proc and sys.
[[nodiscard]] int32_t UsableCpus(const std::filesystem::path& root = "/");

}  // namespace acl_host
