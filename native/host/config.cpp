#include "config.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "error.h"

namespace acl_host {
namespace {

using Json = nlohmann::json;

int32_t UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

uint64_t PhysicalMemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page_bytes <= 0) return uint64_t{1} << 30;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

int64_t IntegerBetween(const std::string& key, const Json& value, int64_t low, int64_t high) {
  const bool fits = value.is_number_integer() && value <= high && value >= low;
  if (!fits) {
    throw Error(ACL_ERROR_INVALID_PARAM, "host." + key + " must be an integer from " + std::to_string(low) + " to " +
                                             std::to_string(high) + ", not " + value.dump());
  }
  return value.get<int64_t>();
}

using Setter = std::function<void(Config&, const std::string&, const Json&)>;

const std::map<std::string, Setter>& Setters() {
  static const std::map<std::string, Setter> setters = {
      {"product",
       [](Config& config, const std::string& key, const Json& value) {
         if (!value.is_string()) throw Error(ACL_ERROR_INVALID_PARAM, "host." + key + " must be a string");
         config.product = &FindProduct(value.get<std::string>());
       }},
      {"devices", [](Config& config, const std::string& key,
                     const Json& value) { config.devices = static_cast<int32_t>(IntegerBetween(key, value, 1, 64)); }},
      {"memory_bytes",
       [](Config& config, const std::string& key, const Json& value) {
         config.memory_bytes = static_cast<uint64_t>(IntegerBetween(key, value, 1, INT64_MAX));
       }},
      {"threads",
       [](Config& config, const std::string& key, const Json& value) {
         config.threads = static_cast<int32_t>(IntegerBetween(key, value, 1, 1024));
       }},
  };
  return setters;
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
    setter->second(config, key, value);
  }
}

}  // namespace

Config LoadConfig(const char* path) {
  // A quarter stays with the process itself and the rest of the machine: device memory is this machine's memory.
  Config config{&FindProduct("910B"), 1, PhysicalMemoryBytes() / 4 * 3, UsableCpus()};
  if (path == nullptr) path = std::getenv("ACL_HOST_CONFIG");
  if (path == nullptr || *path == '\0') return config;
  const Json json = ReadJson(path);
  if (!json.is_object()) {
    throw Error(ACL_ERROR_INVALID_PARAM, "the configuration file " + std::string(path) + " must hold an object");
  }
  if (const auto host = json.find("host"); host != json.end()) Apply(*host, config);
  return config;
}

}  // namespace acl_host
