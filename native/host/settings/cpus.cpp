#include "settings/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace acl_host {
namespace {

namespace fs = std::filesystem;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

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

// The smallest quota of the group and its ancestors. A container may see its own group as the mount itself, not under
// the path of /proc; then only the mount is found.
template <typename Quota>
double LeastQuota(const fs::path& mount, const std::string& group, const Quota& quota) {
  double least = quota(mount);
  fs::path folder = mount;
  for (const fs::path& part : fs::path(group).relative_path()) {
    folder /= part;
    least = std::min(least, quota(folder));
  }
  return least;
}

// A line of /proc/self/cgroup is number:controllers:path; in version 2 the number is 0 and there are no controllers.
double GroupCpus(const fs::path& root) {
  double least = kUnlimited;
  const fs::path mounts = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) least = std::min(least, LeastQuota(mounts, group, QuotaOfVersion2));
    std::istringstream names(controllers);
    for (std::string name; std::getline(names, name, ',');) {
      if (name != "cpu") continue;
      for (const char* const mount : {"cpu", "cpu,cpuacct"}) {
        least = std::min(least, LeastQuota(mounts / mount, group, QuotaOfVersion1));
      }
    }
  }
  return least;
}

}  // namespace

int32_t UsableCpus(const fs::path& root) {
  const double cpus = std::min(AffinityCpus(), GroupCpus(root));
  return cpus == kUnlimited ? 1 : std::max(1, static_cast<int32_t>(std::ceil(cpus)));
}

}  // namespace acl_host
