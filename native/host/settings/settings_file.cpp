#include "settings/settings_file.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace acl_host {
namespace {

Json ReadJson(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(ACL_ERROR_INVALID_PARAM, "cannot read the configuration file " + path);
  try {
    Json json = Json::parse(file);
    if (json.is_object()) return json;
  } catch (const Json::exception& error) {
    throw Error(ACL_ERROR_INVALID_PARAM, "the configuration file " + path + " is not JSON: " + error.what());
  }
  throw Error(ACL_ERROR_INVALID_PARAM, "the configuration file " + path + " must hold an object");
}

}  // namespace

void ForSettingsFiles(const char* path, const std::function<void(const Json& file)>& apply) {
  for (const char* const file : {const_cast<const char*>(std::getenv("ACL_HOST_CONFIG")), path}) {
    if (file != nullptr && *file != '\0') apply(ReadJson(file));
  }
}

void FailSetting(const std::string& key, const std::string& expected, const Json& value) {
  // The JSON library cannot dump a string that is not UTF-8.
  throw Error(ACL_ERROR_INVALID_PARAM,
              key + " must be " + expected + ", not " + value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

int64_t IntegerBetween(const std::string& key, const Json& value, int64_t low, int64_t high) {
  if (!value.is_number_integer() || value > high || value < low) {
    FailSetting(key, "an integer from " + std::to_string(low) + " to " + std::to_string(high), value);
  }
  return value.get<int64_t>();
}

bool Boolean(const std::string& key, const Json& value) {
  if (!value.is_boolean()) FailSetting(key, "true or false", value);
  return value.get<bool>();
}

std::string String(const std::string& key, const Json& value) {
  if (!value.is_string()) FailSetting(key, "a string", value);
  return value.get<std::string>();
}

std::string OneOf(const std::string& key, const Json& value, const std::vector<std::string>& allowed) {
  if (value.is_string() && std::find(allowed.begin(), allowed.end(), value) != allowed.end()) {
    return value.get<std::string>();
  }
  std::string list;
  for (const std::string& name : allowed) list += (list.empty() ? "" : ", ") + name;
  FailSetting(key, "one of " + list, value);
}

}  // namespace acl_host
