#include "plan/device_access.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "errors/exceptions.h"
#include "tensors/data_type.h"

namespace acl_host {
namespace {

enum class Place { kHost, kDevice };

// The places of both sides of a copy of this kind; false if the kind does not say.
bool SidesOf(aclrtMemcpyKind kind, Place& dst, Place& src) {
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST:
      dst = src = Place::kHost;
      return true;
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
      dst = Place::kDevice;
      src = Place::kHost;
      return true;
    case ACL_MEMCPY_DEVICE_TO_HOST:
      dst = Place::kHost;
      src = Place::kDevice;
      return true;
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
      dst = src = Place::kDevice;
      return true;
    default:
      return false;
  }
}

void CheckSide(const Memory& memory, const char* name, const void* address, uint64_t size_bytes, Place place) {
  const auto block = memory.Find(address);
  const bool on_device = block && !block->pinned();
  if (place == Place::kHost && on_device) {
    throw Error(ACL_ERROR_RT_PARAM_INVALID, std::string(name) + " lies in device memory, which kind says it does not");
  }
  if (place == Place::kDevice && !(on_device && block->Holds(address, size_bytes))) {
    throw Error(ACL_ERROR_RT_PARAM_INVALID, std::string(name) + ": its " + std::to_string(size_bytes) +
                                                " bytes do not lie in memory from aclrtMalloc");
  }
}

void CheckReachable(const Memory& memory, const HostDevice& device, const std::string& name, const void* address,
                    uint64_t size_bytes) {
  const auto block = memory.Find(address);
  if (block && block->device == device.id && block->Holds(address, size_bytes)) return;
  throw OperatorError(ACLNN_ERR_PARAM_INVALID, name + ": its " + std::to_string(size_bytes) +
                                                   " bytes do not lie in memory from aclrtMalloc on device " +
                                                   std::to_string(device.id));
}

}  // namespace

void CheckCopySides(Runtime& runtime, const void* dst, const void* src, uint64_t size_bytes, aclrtMemcpyKind kind) {
  if (runtime.config().host_pointers) return;
  Place dst_place{};
  Place src_place{};
  if (!SidesOf(kind, dst_place, src_place)) return;
  CheckSide(runtime.memory(), "dst", dst, size_bytes, dst_place);
  CheckSide(runtime.memory(), "src", src, size_bytes, src_place);
}

void CheckSetSide(Runtime& runtime, const void* address, uint64_t size_bytes) {
  if (runtime.config().host_pointers) return;
  CheckSide(runtime.memory(), "devPtr", address, size_bytes, Place::kDevice);
}

void CheckLaunchSides(Runtime& runtime, const HostDevice& device, const Plan& plan, const Plan::Addresses& addresses,
                      const void* workspace, uint64_t workspace_bytes) {
  if (runtime.config().host_pointers) return;
  auto address = addresses.begin();
  plan.ForOperands([&](const aclTensor& tensor, bool is_output) {
    const ByteExtent view = ViewExtent(tensor).value();
    const void* const first = static_cast<const std::byte*>(*address++) + view.begin;
    if (view.size == 0) return;
    CheckReachable(runtime.memory(), device,
                   std::string(is_output ? "an output" : "an input") + " of shape " + DimsText(tensor.view_dims), first,
                   view.size);
  });
  if (workspace_bytes > 0) CheckReachable(runtime.memory(), device, "workspace", workspace, workspace_bytes);
}

}  // namespace acl_host
