#include "settings/usable_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "settings/control_groups.h"

namespace acl_host {
namespace {

uint64_t PhysicalMemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page_bytes <= 0) return uint64_t{1} << 30;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

}  // namespace

uint64_t UsableMemoryBytes(const std::filesystem::path& root) {
  // A quarter is left to the process itself and to the machine, because device memory is this machine's memory.
  uint64_t usable = PhysicalMemoryBytes() / 4 * 3;
  // The kernel kills a process that exceeds the limit of a control group, though it sees the memory of the machine.
  for (const auto& [folder, version] : ControlGroups(root, "memory", {"memory"})) {
    uint64_t limit = 0;
    // Half is left to the process, because messages take as much memory as the tensors in them. A group without a limit
    // has a word here, or about 2^63.
    std::ifstream file(folder / (version == 2 ? "memory.max" : "memory.limit_in_bytes"));
    if (file >> limit) usable = std::min(usable, limit / 2);
  }
  return usable;
}

}  // namespace acl_host
