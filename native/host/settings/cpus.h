// How many processors this process may use.
#pragma once

#include <cstdint>
#include <filesystem>

namespace acl_host {

// The processors of the affinity mask, but no more than the control groups of this process grant time for, of version 1
// or 2; at least 1. A group that grants 1.5 processors counts as 2. root is where /proc and /sys are found.
[[nodiscard]] int32_t UsableCpus(const std::filesystem::path& root = "/");

}  // namespace acl_host
