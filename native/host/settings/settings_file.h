// Files of settings, for the host library and the strict one. Each error names the key, the expected value and the
// given one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "errors/exceptions.h"

namespace acl_host {

using Json = nlohmann::json;

// Calls apply with the file that the environment variable ACL_HOST_CONFIG names, then with that at path, which may be
// null: its keys win.
void ForSettingsFiles(const char* path, const std::function<void(const Json& file)>& apply);

// key is the whole path to the value, such as host.devices.
[[noreturn]] void FailSetting(const std::string& key, const std::string& expected, const Json& value);

[[nodiscard]] int64_t IntegerBetween(const std::string& key, const Json& value, int64_t low, int64_t high);
[[nodiscard]] bool Boolean(const std::string& key, const Json& value);
[[nodiscard]] std::string String(const std::string& key, const Json& value);
[[nodiscard]] std::string OneOf(const std::string& key, const Json& value, const std::vector<std::string>& allowed);

// How each key of an object changes the settings.
template <typename Settings>
using Setters = std::map<std::string, std::function<void(Settings&, const std::string& key, const Json& value)>>;

template <typename Settings>
void ApplyObject(const std::string& name, const Json& object, const Setters<Settings>& setters, Settings& settings) {
  if (!object.is_object()) throw Error(ACL_ERROR_INVALID_PARAM, "the key \"" + name + "\" must hold an object");
  for (const auto& [key, value] : object.items()) {
    const auto setter = setters.find(key);
    if (setter == setters.end()) throw Error(ACL_ERROR_INVALID_PARAM, "unknown key " + name + "." + key);
    setter->second(settings, name + "." + key, value);
  }
}

}  // namespace acl_host
