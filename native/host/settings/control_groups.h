// The control groups that limit this process.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

namespace acl_host {

struct ControlGroup {
  std::filesystem::path folder;
  int version;  // 1 or 2
};

// The groups of a controller, such as "memory", that this process is in, and all that hold these: the smallest limit of
// them counts. mounts are the names under which version 1 mounts the controller. root is the folder that has proc and
// sys.
[[nodiscard]] std::vector<ControlGroup> ControlGroups(const std::filesystem::path& root, const std::string& controller,
                                                      std::initializer_list<const char*> mounts);

}  // namespace acl_host
