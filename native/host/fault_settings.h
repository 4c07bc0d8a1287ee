// Reads the key "faults" of the configuration.
#ifndef ACL_HOST_FAULT_SETTINGS_H_
#define ACL_HOST_FAULT_SETTINGS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fault_plan.h"

namespace acl_host {

[[nodiscard]] std::vector<Fault> ReadFaults(const std::string& key, const nlohmann::json& value);

}  // namespace acl_host

#endif  // ACL_HOST_FAULT_SETTINGS_H_
