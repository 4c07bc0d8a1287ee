// The settings of the host library, read once by aclInit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "faults/fault_plan.h"
#include "plan/vector_levels.h"
#include "settings/product.h"

namespace acl_host {

struct Config {
  const Product* product;
  int32_t devices;
  uint64_t memory_bytes;                // limit of each device; by default all share equally what the machine has
  int32_t threads;                      // of each device, the stream's own thread included
  VectorLevel vector_level;             // the highest that the processor has, unless told
  uint64_t memory_elsewhere_bytes = 0;  // what other processes use of each device's memory
  int32_t streams_elsewhere = 0;        // and of its streams
  bool host_pointers = true;            // any host memory will do as device memory
  bool strict = false;                  // report and refuse every misuse
  bool stops_on_failure = true;         // a task that fails poisons the device; else only its own stream knows, once
  bool card_messages = false;           // error texts as long and as broken as a card's
  bool signal_handlers = false;         // handlers of signals as CANN's tracing installs them
  std::string strict_report{};          // file to append reports to; stderr if empty
  std::vector<Fault> faults{};
  int64_t faults_after_launches = 0;
  std::vector<std::string> not_repeatable{};  // operators whose executors cannot be made repeatable
};

// Reads the key "host" of the JSON file at path, or of the file that the environment variable ACL_HOST_CONFIG names if
// path is null. Keys beside "host" belong to CANN and are ignored; an unknown key inside "host" is an error.
// The environment variable ASCEND_RT_VISIBLE_DEVICES then hides some of the devices.
[[nodiscard]] Config LoadConfig(const char* path);

}  // namespace acl_host
