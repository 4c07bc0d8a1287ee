// The settings of the host library, read once by aclInit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "faults/fault_plan.h"
#include "plan/vector_levels.h"
#include "settings/product.h"

namespace acl_host {

struct Config {
  Product product;
  int32_t devices;
  uint64_t memory_bytes;                    // limit of each device; by default an equal share of the machine's memory
  int32_t threads;                          // of each device, including the stream's own thread
  VectorLevel vector_level;                 // by default the highest that the processor has
  uint64_t memory_elsewhere_bytes = 0;      // of each device's memory, used by other processes
  int32_t streams_elsewhere = 0;            // of each device's streams, used by other processes
  bool host_pointers = true;                // accept any host memory as device memory
  bool stream_failure_mode = true;          // streams may be set to stop at a failed task, which then loses the device
  bool card_messages = false;               // error texts as long and as broken as a card's
  bool signal_handlers = false;             // install signal handlers as CANN's tracing does
  std::optional<int32_t> default_device{};  // of threads that have set none
  std::vector<Fault> faults{};
  int64_t faults_after_launches = 0;
  int32_t workspace_percent = 0;              // of the operands' bytes: what a launch writes of its workspace in vain
  std::vector<std::string> not_repeatable{};  // operators whose executors cannot be made repeatable
};

// Reads the key "host" of the JSON file that the environment variable ACL_HOST_CONFIG names, then of that at path if it
// is not null: its keys win. Of CANN's own top-level keys it reads "defaultDevice", and ignores the others; an unknown
// key inside "host" is an error. The environment variable ASCEND_RT_VISIBLE_DEVICES then hides some of the devices.
[[nodiscard]] Config LoadConfig(const char* path);

}  // namespace acl_host
