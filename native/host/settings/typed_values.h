// Typed values of the configuration. Each error names the key, the expected value and the given one.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace acl_host {

// key is the whole path to the value, such as host.devices.
[[noreturn]] void FailSetting(const std::string& key, const std::string& expected, const nlohmann::json& value);

[[nodiscard]] int64_t IntegerBetween(const std::string& key, const nlohmann::json& value, int64_t low, int64_t high);
[[nodiscard]] bool Boolean(const std::string& key, const nlohmann::json& value);
[[nodiscard]] std::string String(const std::string& key, const nlohmann::json& value);
// The second phases of all operators.
[[nodiscard]] const std::vector<std::string>& OperatorNames();
[[nodiscard]] std::string OneOf(const std::string& key, const nlohmann::json& value,
                                const std::vector<std::string>& allowed);

}  // namespace acl_host
