// A context. Each thread has a current one. It belongs to a device and owns streams, including a default stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "device/host_device.h"
#include "device/host_stream.h"

namespace acl_host {

struct Context {
  Context(HostDevice& device_in, bool is_default_in) : device(device_in), is_default(is_default_in) {}

  HostDevice& device;
  const bool is_default;
  void* handle = nullptr;
  std::shared_ptr<HostStream> default_stream;  // the meaning of a null stream

  static constexpr int64_t kNotSet = -1;
  std::atomic<int64_t> deterministic{kNotSet};
  std::atomic<int64_t> debug_kernel{kNotSet};
};

}  // namespace acl_host
