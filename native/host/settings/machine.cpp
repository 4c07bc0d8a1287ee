#include "settings/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace acl_host {
namespace {

namespace fs = std::filesystem;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

struct ControlGroup {
  fs::path folder;
  int version;  // 1 or 2
};

bool Has(const std::string& controllers, const std::string& controller) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == controller) return true;
  }
  return false;
}

// A container may see its own group as the mount itself, not under the path of /proc; then only the mount is found.
void AddWithAncestors(std::vector<ControlGroup>& groups, const fs::path& mount, const std::string& group, int version) {
  fs::path folder = mount;
  groups.push_back({folder, version});
  for (const fs::path& part : fs::path(group).relative_path()) groups.push_back({folder /= part, version});
}

// The groups of a controller, such as "memory", that this process is in, and all that hold these: the smallest limit of
// them counts. mounts are the names under which version 1 mounts the controller.
// A line of /proc/self/cgroup is number:controllers:path; in version 2 the number is 0 and there are no controllers.
std::vector<ControlGroup> ControlGroups(const fs::path& root, const std::string& controller,
                                        std::initializer_list<const char*> mounts) {
  std::vector<ControlGroup> groups;
  const fs::path folder = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) AddWithAncestors(groups, folder, group, 2);
    if (!Has(controllers, controller)) continue;
    for (const char* const mount : mounts) AddWithAncestors(groups, folder / mount, group, 1);
  }
  return groups;
}

double AffinityCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // The call fails if the machine has more processors than the set has room for.
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return kUnlimited;
  return CPU_COUNT(&set);
}

double Quotient(double quota, double period) { return quota > 0 && period > 0 ? quota / period : kUnlimited; }

// The file has "max 100000", or the microseconds of quota and period.
double QuotaOfVersion2(const fs::path& group) {
  double quota = 0;
  double period = 0;
  std::ifstream(group / "cpu.max") >> quota >> period;
  return Quotient(quota, period);
}

// The same in two files; a quota of -1 means no limit.
double QuotaOfVersion1(const fs::path& group) {
  double quota = 0;
  double period = 0;
  std::ifstream(group / "cpu.cfs_quota_us") >> quota;
  std::ifstream(group / "cpu.cfs_period_us") >> period;
  return Quotient(quota, period);
}

double GroupCpus(const fs::path& root) {
  double least = kUnlimited;
  for (const auto& [folder, version] : ControlGroups(root, "cpu", {"cpu", "cpu,cpuacct"})) {
    least = std::min(least, version == 2 ? QuotaOfVersion2(folder) : QuotaOfVersion1(folder));
  }
  return least;
}

uint64_t PhysicalMemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page_bytes <= 0) return uint64_t{1} << 30;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

}  // namespace

int32_t UsableCpus(const fs::path& root) {
  const double cpus = std::min(AffinityCpus(), GroupCpus(root));
  return cpus == kUnlimited ? 1 : std::max(1, static_cast<int32_t>(std::ceil(cpus)));
}

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
