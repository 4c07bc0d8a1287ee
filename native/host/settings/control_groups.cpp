#include "settings/control_groups.h"

#include <fstream>
#include <sstream>

namespace acl_host {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

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

}  // namespace acl_host
