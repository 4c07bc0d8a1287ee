#include "settings/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "errors/exceptions.h"
#include "faults/fault_settings.h"
#include "settings/cpus.h"
#include "settings/typed_values.h"
#include "settings/usable_memory.h"
#include "settings/visible_devices.h"

namespace acl_host {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kNotSet = 0;

std::vector<std::string> ReadOperators(const std::string& key, const Json& value) {
  if (!value.is_array()) FailSetting(key, "a list of operators", value);
  std::vector<std::string> names;
  for (const Json& name : value) {
    names.push_back(OneOf(key + "[" + std::to_string(names.size()) + "]", name, OperatorNames()));
  }
  return names;
}

using Setter = std::function<void(Config&, const std::string&, const Json&)>;

const std::map<std::string, Setter>& Setters() {
  static const std::map<std::string, Setter> setters = {
      {"product", [](Config& config, const std::string& key,
                     const Json& value) { config.product = FindProduct(String(key, value)); }},
      {"devices", [](Config& config, const std::string& key,
                     const Json& value) { config.devices = static_cast<int32_t>(IntegerBetween(key, value, 1, 64)); }},
      {"memory_bytes",
       [](Config& config, const std::string& key, const Json& value) {
         config.memory_bytes = static_cast<uint64_t>(IntegerBetween(key, value, 1, INT64_MAX));
       }},
      {"memory_elsewhere_bytes",
       [](Config& config, const std::string& key, const Json& value) {
         config.memory_elsewhere_bytes = static_cast<uint64_t>(IntegerBetween(key, value, 0, INT64_MAX));
       }},
      {"streams_elsewhere",
       [](Config& config, const std::string& key, const Json& value) {
         config.streams_elsewhere = static_cast<int32_t>(IntegerBetween(key, value, 0, INT32_MAX));
       }},
      {"failure_mode",
       [](Config& config, const std::string& key, const Json& value) {
         config.stops_on_failure = OneOf(key, value, {"stop", "continue"}) == "stop";
       }},
      {"card_messages",
       [](Config& config, const std::string& key, const Json& value) { config.card_messages = Boolean(key, value); }},
      {"signal_handlers",
       [](Config& config, const std::string& key, const Json& value) { config.signal_handlers = Boolean(key, value); }},
      {"threads",
       [](Config& config, const std::string& key, const Json& value) {
         config.threads = static_cast<int32_t>(IntegerBetween(key, value, 1, 1024));
       }},
      {"vector_level",
       [](Config& config, const std::string& key, const Json& value) {
         config.vector_level = FindVectorLevel(OneOf(key, value, SupportedVectorLevels()));
       }},
      {"host_pointers",
       [](Config& config, const std::string& key, const Json& value) { config.host_pointers = Boolean(key, value); }},
      {"workspace_percent",
       [](Config& config, const std::string& key, const Json& value) {
         config.workspace_percent = static_cast<int32_t>(IntegerBetween(key, value, 0, 100));
       }},
      {"not_repeatable", [](Config& config, const std::string& key,
                            const Json& value) { config.not_repeatable = ReadOperators(key, value); }},
      {"faults",
       [](Config& config, const std::string& key, const Json& value) { config.faults = ReadFaults(key, value); }},
      {"faults_after_launches",
       [](Config& config, const std::string& key, const Json& value) {
         config.faults_after_launches = IntegerBetween(key, value, 0, INT64_MAX);
       }},
  };
  return setters;
}

// CANN has device numbers as text.
int32_t DeviceNumber(const std::string& key, const Json& value) {
  int32_t number = -1;
  const std::string text = String(key, value);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    FailSetting(key, "a device's number", value);
  return number;
}

Json ReadJson(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(ACL_ERROR_INVALID_PARAM, "cannot read the configuration file " + path);
  try {
    return Json::parse(file);
  } catch (const Json::exception& error) {
    throw Error(ACL_ERROR_INVALID_PARAM, "the configuration file " + path + " is not JSON: " + error.what());
  }
}

void Apply(const Json& host, Config& config) {
  if (!host.is_object()) throw Error(ACL_ERROR_INVALID_PARAM, "the key \"host\" must hold an object");
  for (const auto& [key, value] : host.items()) {
    const auto setter = Setters().find(key);
    if (setter == Setters().end()) throw Error(ACL_ERROR_INVALID_PARAM, "unknown key host." + key);
    setter->second(config, "host." + key, value);
  }
}

void ApplyFile(const std::string& path, Config& config) {
  const Json json = ReadJson(path);
  if (!json.is_object()) {
    throw Error(ACL_ERROR_INVALID_PARAM, "the configuration file " + path + " must hold an object");
  }
  if (const auto host = json.find("host"); host != json.end()) Apply(*host, config);
  if (const auto fallback = json.find("defaultDevice"); fallback != json.end()) {
    if (const auto id = fallback->find("default_device"); id != fallback->end()) {
      config.default_device = DeviceNumber("defaultDevice.default_device", *id);
    }
  }
}

// The part of this process, if several share the processors and say so in ACL_HOST_PROCESSES.
int32_t UsableThreads() {
  int32_t processes = 1;
  if (const char* const text = std::getenv("ACL_HOST_PROCESSES"); text != nullptr) {
    std::from_chars(text, text + std::strlen(text), processes);
  }
  return std::max(1, UsableCpus() / std::max(1, processes));
}

}  // namespace

Config LoadConfig(const char* path) {
  Config config{Product::k910B, 1, kNotSet, UsableThreads(), FindVectorLevel(SupportedVectorLevels().back())};
  for (const char* const file : {const_cast<const char*>(std::getenv("ACL_HOST_CONFIG")), path}) {
    if (file != nullptr && *file != '\0') ApplyFile(file, config);
  }
  if (config.memory_bytes == kNotSet) config.memory_bytes = UsableMemoryBytes() / static_cast<uint64_t>(config.devices);
  if (const char* const visible = std::getenv("ASCEND_RT_VISIBLE_DEVICES"); visible != nullptr) {
    config.devices = CountVisibleDevices(visible, config.devices);
  }
  return config;
}

}  // namespace acl_host
