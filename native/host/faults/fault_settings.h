// Reads the key "faults" of the configuration.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "faults/fault_plan.h"

namespace acl_host {

[[nodiscard]] std::vector<Fault> ReadFaults(const std::string& key, const nlohmann::json& value);

}  // namespace acl_host
