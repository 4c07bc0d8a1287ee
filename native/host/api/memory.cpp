// The ABI: memory and copies.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "api.h"
#include "device/runtime.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"
#include "faults/fault_plan.h"
#include "plan/device_access.h"

namespace acl_host {
namespace {

void CheckCounts(size_t destination_bytes, size_t count) {
  if (count > destination_bytes) {
    throw Error(ACL_ERROR_RT_PARAM_INVALID, "count " + std::to_string(count) + " exceeds the destination's " +
                                                std::to_string(destination_bytes) + " bytes");
  }
}

// The addresses decide the direction, not kind: all memory is this process's memory.
void CheckCopy(const void* dst, size_t dst_bytes, const void* src, size_t count, aclrtMemcpyKind kind) {
  CheckNotNull(dst, "dst");
  CheckNotNull(src, "src");
  CheckCounts(dst_bytes, count);
  if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_INTER_DEVICE_TO_DEVICE) {
    throw Error(ACL_ERROR_INVALID_PARAM, "there is no kind " + std::to_string(static_cast<int>(kind)));
  }
}

void CountAllocation(Runtime& runtime, Site site, size_t size) {
  if (size == 0) return;  // refused elsewhere and not counted
  const Occurrence occurrence = runtime.faults().Next(site);
  if (occurrence.Has(FaultKind::kOutOfMemory)) {
    throw Error(ACL_ERROR_RT_MEMORY_ALLOCATION,
                "out of memory: allocation " + std::to_string(occurrence.number) + " fails by the fault plan");
  }
}

// Makes a copy on the calling thread; pause waits, and returns false if the copy was dropped meanwhile.
template <typename Pause>
void Copy(HostDevice& device, const Occurrence& occurrence, void* dst, const void* src, size_t count,
          const Pause& pause) {
  device.CheckUsable();
  if (occurrence.Has(FaultKind::kSlowCopy) && !pause(*occurrence.fault->duration)) {
    throw Error(ACL_ERROR_RT_INVALID_HANDLE, "the stream was destroyed during this copy");
  }
  if (occurrence.Has(FaultKind::kCopyError)) {
    const Error failure(occurrence.fault->code,
                        "copy " + std::to_string(occurrence.number) + " fails by the fault plan");
    device.Record(failure);
    throw failure;
  }
  std::memmove(dst, src, count);
}

void Allocate(void** target, size_t size, aclrtMemMallocPolicy policy, bool padded) {
  void*& address = Required(target, "devPtr");
  const auto runtime = Runtime::Current();
  const auto context = runtime->UsableContext();
  CountAllocation(*runtime, Site::kAllocation, size);
  const bool is_huge = policy == ACL_MEM_MALLOC_HUGE1G_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P;
  const size_t padding_bytes = padded && !is_huge ? FactsOf(runtime->product()).allocation_padding_bytes : 0;
  const bool is_normal = policy == ACL_MEM_MALLOC_NORMAL_ONLY || policy == ACL_MEM_MALLOC_NORMAL_ONLY_P2P;
  const auto pages = is_normal ? Memory::Pages::kNormal : Memory::Pages::kHugeFirst;
  address = runtime->memory().AllocateOnDevice(context->device.id, size, padding_bytes, pages);
}

}  // namespace

void api::aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) { Allocate(devPtr, size, policy, true); }

void api::aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  Allocate(devPtr, size, policy, false);
}

void api::aclrtFree(void* devPtr) { (void)Runtime::Current()->memory().ReleaseOnDevice(devPtr); }

void api::aclrtMallocHost(void** hostPtr, size_t size) {
  void*& address = Required(hostPtr, "hostPtr");
  const auto runtime = Runtime::Current();
  (void)runtime->UsableContext();
  CountAllocation(*runtime, Site::kAllocation, size);
  CountAllocation(*runtime, Site::kPinnedAllocation, size);
  address = runtime->memory().AllocatePinned(size);
}

void api::aclrtFreeHost(void* hostPtr) { (void)Runtime::Current()->memory().ReleasePinned(hostPtr); }

void api::aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  if (count == 0) return;
  CheckCopy(dst, destMax, src, count, kind);
  const auto runtime = Runtime::Current();
  const auto context = runtime->UsableContext();
  CheckCopySides(*runtime, dst, src, count, kind);
  Copy(context->device, runtime->faults().Next(Site::kCopy), dst, src, count, [](std::chrono::milliseconds duration) {
    std::this_thread::sleep_for(duration);
    return true;
  });
}

void api::aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                           aclrtStream stream) {
  if (count == 0) return;
  CheckCopy(dst, destMax, src, count, kind);
  const auto runtime = Runtime::Current();
  const auto target = runtime->FindStream(stream);
  CheckCopySides(*runtime, dst, src, count, kind);
  if (kind == ACL_MEMCPY_HOST_TO_HOST) {
    throw Error(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "streams do not copy from host to host");
  }
  const Occurrence occurrence = runtime->faults().Next(Site::kCopy);
  const auto copy = [=, &owner = *target] {
    Copy(owner.device(), occurrence, dst, src, count,
         [&](std::chrono::milliseconds duration) { return owner.Pause(duration); });
  };
  // A device cannot reach pageable memory on its own, so the caller waits until the stream has made the copy.
  if (runtime->memory().IsPageable(dst) || runtime->memory().IsPageable(src)) {
    target->RunInOrder(copy);
  } else {
    target->Enqueue(copy);
  }
}

void api::aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  if (count == 0) return;
  CheckNotNull(devPtr, "devPtr");
  CheckCounts(maxCount, count);
  const auto runtime = Runtime::Current();
  (void)runtime->UsableContext();
  CheckSetSide(*runtime, devPtr, count);
  std::memset(devPtr, value, count);
}

void api::aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  if (count == 0) return;
  CheckNotNull(devPtr, "devPtr");
  CheckCounts(maxCount, count);
  const auto runtime = Runtime::Current();
  const auto target = runtime->FindStream(stream);
  CheckSetSide(*runtime, devPtr, count);
  target->Enqueue([=, &device = target->device()] {
    device.CheckUsable();
    std::memset(devPtr, value, count);
  });
}

void api::aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  size_t& free_bytes = Required(free, "free");
  size_t& total_bytes = Required(total, "total");
  const auto runtime = Runtime::Current();
  const auto context = runtime->CurrentContext();
  const bool on_device = attr == ACL_HBM_MEM || attr == ACL_HBM_MEM_HUGE || attr == ACL_HBM_MEM_NORMAL;
  total_bytes = on_device ? runtime->memory().limit_bytes() : 0;
  free_bytes = on_device ? total_bytes - runtime->memory().used_bytes(context->device.id) : 0;
}

}  // namespace acl_host
