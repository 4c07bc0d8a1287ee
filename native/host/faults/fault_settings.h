// Reads the key "faults" of the configuration.
#pragma once

#include <string>
#include <vector>

#include "faults/fault_plan.h"
#include "settings/settings_file.h"

namespace acl_host {

[[nodiscard]] std::vector<Fault> ReadFaults(const std::string& key, const Json& value);

// The second phases of all operators.
[[nodiscard]] const std::vector<std::string>& OperatorNames();

}  // namespace acl_host
