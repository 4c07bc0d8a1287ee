// How many processors this process may use.
#ifndef ACL_HOST_CPUS_H_
#define ACL_HOST_CPUS_H_

#include <cstdint>
#include <filesystem>

namespace acl_host {

// The processors of the affinity mask, but no more than the control groups of this process grant time for, of version 1
// or 2; at least 1. A group that grants 1.5 processors counts as 2. root is where /proc and /sys are found.
[[nodiscard]] int32_t UsableCpus(const std::filesystem::path& root = "/");

}  // namespace acl_host

#endif  // ACL_HOST_CPUS_H_
