#include "settings/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "faults/fault_settings.h"
#include "settings/machine.h"
#include "settings/settings_file.h"

namespace acl_host {
namespace {

constexpr uint64_t kEqualShare = 0;

std::vector<std::string> ReadOperators(const std::string& key, const Json& value) {
  if (!value.is_array()) FailSetting(key, "a list of operators", value);
  std::vector<std::string> names;
  for (const Json& name : value) {
    names.push_back(OneOf(key + "[" + std::to_string(names.size()) + "]", name, OperatorNames()));
  }
  return names;
}

template <typename Number>
auto Integer(Number Config::* setting, int64_t low, int64_t high) {
  return [=](Config& config, const std::string& key, const Json& value) {
    config.*setting = static_cast<Number>(IntegerBetween(key, value, low, high));
  };
}

auto Flag(bool Config::* setting) {
  return [=](Config& config, const std::string& key, const Json& value) { config.*setting = Boolean(key, value); };
}

const Setters<Config>& HostSetters() {
  static const Setters<Config> setters = {
      {"product", [](Config& config, const std::string& key,
                     const Json& value) { config.product = FindProduct(String(key, value)); }},
      {"devices", Integer(&Config::devices, 1, 64)},
      {"memory_bytes", Integer(&Config::memory_bytes, 1, INT64_MAX)},
      {"memory_elsewhere_bytes", Integer(&Config::memory_elsewhere_bytes, 0, INT64_MAX)},
      {"streams_elsewhere", Integer(&Config::streams_elsewhere, 0, INT32_MAX)},
      {"stream_failure_mode", Flag(&Config::stream_failure_mode)},
      {"card_messages", Flag(&Config::card_messages)},
      {"signal_handlers", Flag(&Config::signal_handlers)},
      {"threads", Integer(&Config::threads, 1, 1024)},
      {"vector_level",
       [](Config& config, const std::string& key, const Json& value) {
         config.vector_level = FindVectorLevel(OneOf(key, value, SupportedVectorLevels()));
       }},
      {"host_pointers", Flag(&Config::host_pointers)},
      {"workspace_percent", Integer(&Config::workspace_percent, 0, 100)},
      {"not_repeatable", [](Config& config, const std::string& key,
                            const Json& value) { config.not_repeatable = ReadOperators(key, value); }},
      {"faults",
       [](Config& config, const std::string& key, const Json& value) { config.faults = ReadFaults(key, value); }},
      {"faults_after_launches", Integer(&Config::faults_after_launches, 0, INT64_MAX)},
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

void Apply(const Json& file, Config& config) {
  if (const auto host = file.find("host"); host != file.end()) ApplyObject("host", *host, HostSetters(), config);
  if (const auto fallback = file.find("defaultDevice"); fallback != file.end()) {
    if (const auto id = fallback->find("default_device"); id != fallback->end()) {
      config.default_device = DeviceNumber("defaultDevice.default_device", *id);
    }
  }
}

// ASCEND_RT_VISIBLE_DEVICES lists the machine's devices that a process sees: numbers in ascending order, separated by
// commas without spaces. As in CANN, reading stops at the first invalid number, and the numbers before it count.
int32_t CountVisibleDevices(std::string_view value, int32_t devices) {
  int32_t count = 0;
  int32_t last = -1;
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find(',', begin), value.size());
    int32_t number = 0;
    const auto parsed = std::from_chars(value.data() + begin, value.data() + end, number);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == value.data() + end;
    if (!whole || number <= last || number >= devices) break;
    last = number;
    ++count;
    begin = end + 1;
  }
  return count;
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
  Config config{Product::k910B, 1, kEqualShare, UsableThreads(), FindVectorLevel(SupportedVectorLevels().back())};
  ForSettingsFiles(path, [&](const Json& file) { Apply(file, config); });
  if (config.memory_bytes == kEqualShare)
    config.memory_bytes = UsableMemoryBytes() / static_cast<uint64_t>(config.devices);
  if (const char* const visible = std::getenv("ASCEND_RT_VISIBLE_DEVICES"); visible != nullptr) {
    config.devices = CountVisibleDevices(visible, config.devices);
  }
  return config;
}

}  // namespace acl_host
