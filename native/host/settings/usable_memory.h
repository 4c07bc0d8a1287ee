// The memory that the devices may have together.
#pragma once

#include <cstdint>
#include <filesystem>

namespace acl_host {

// Three quarters of the machine's memory, or half of the smallest limit of the process's control groups (version 1 or
// 2) if that is less. root is the folder that has proc and sys.
[[nodiscard]] uint64_t UsableMemoryBytes(const std::filesystem::path& root = "/");

}  // namespace acl_host
