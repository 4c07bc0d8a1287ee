#include "settings/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "settings/control_groups.h"

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

double GroupCpus(const fs::path& root) {
  double least = kUnlimited;
  for (const auto& [folder, version] : ControlGroups(root, "cpu", {"cpu", "cpu,cpuacct"})) {
    least = std::min(least, version == 2 ? QuotaOfVersion2(folder) : QuotaOfVersion1(folder));
  }
  return least;
}

}  // namespace

int32_t UsableCpus(const fs::path& root) {
  const double cpus = std::min(AffinityCpus(), GroupCpus(root));
  return cpus == kUnlimited ? 1 : std::max(1, static_cast<int32_t>(std::ceil(cpus)));
}

}  // namespace acl_host
