// A context. Each thread has a current one. It belongs to a device and owns streams, including a default stream.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "acl/acl_rt.h"
#include "device/host_device.h"
#include "device/host_stream.h"

namespace acl_host {

constexpr int32_t kContextOptions = ACL_OPT_STRONG_CONSISTENCY + 1;
constexpr int64_t kNotSet = -1;

struct Context {
  Context(HostDevice& device_in, bool is_default_in) : device(device_in), is_default(is_default_in) {}

  HostDevice& device;
  const bool is_default;
  void* handle = nullptr;
  std::shared_ptr<HostStream> default_stream;  // the meaning of a null stream

  std::array<std::atomic<int64_t>, kContextOptions> options{kNotSet, kNotSet, kNotSet};  // by aclSysParamOpt
};

}  // namespace acl_host
