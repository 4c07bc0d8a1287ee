// Memory and copies.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "accesses.h"
#include "real.h"
#include "report.h"
#include "session.h"

namespace acl_strict {
namespace {

constexpr int kFreshPattern = 0xCB;
constexpr int kFreedPattern = 0xDB;
constexpr uintptr_t kCopyAlignment = 64;
// The releases from which on copies of pageable memory return after the copy, and addresses need no alignment.
constexpr int32_t kPageableCopies = 803;
constexpr int32_t kUnalignedCopies = 805;

void Fill(void* address, size_t size_bytes, int32_t device, int pattern) {
  if (device == kPinned) {
    std::memset(address, pattern, size_bytes);
  } else if (Real().aclrtMemset(address, size_bytes, pattern, size_bytes) != ACL_SUCCESS) {
    DropMessage();
  }
}

// Memory that is kept must fail no allocation.
void MakeRoom(int32_t device, uint64_t size_bytes) {
  if (TheSession().memory.kept_bytes(device) == 0) return;
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (Real().aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total_bytes) != ACL_SUCCESS) DropMessage();
  if (free_bytes < size_bytes) ReleaseKept();
}

aclError NoteAllocation(aclError code, void** address, size_t size, size_t charged_bytes, int32_t device) {
  if (size == 0) return code;
  Session& session = TheSession();
  const uint64_t number = ++session.allocations;
  if (code != ACL_SUCCESS) return code;
  Fill(*address, size, device, kFreshPattern);
  session.memory.Add(*address, size, charged_bytes, device, number);
  return code;
}

aclError Allocate(decltype(&::aclrtMalloc) allocate, void** address, size_t size, aclrtMemMallocPolicy policy,
                  bool is_padded) {
  const bool is_huge = policy == ACL_MEM_MALLOC_HUGE1G_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P;
  const uint64_t charged_bytes = RoundUpToGranule(size) + (is_padded && !is_huge ? PaddingBytes() : 0);
  const int32_t device = CurrentDevice();
  MakeRoom(device, charged_bytes);
  return NoteAllocation(allocate(address, size, policy), address, size, charged_bytes, device);
}

aclError Free(aclError (*free)(void*), void* address, bool is_pinned) {
  Session& session = TheSession();
  session.memory.CheckFree(address, session.work);
  const auto block = session.memory.Find(address);
  const bool is_start = block && block->base == reinterpret_cast<uintptr_t>(address);
  if (!is_start || block->is_on_device() == is_pinned) return free(address);
  Fill(address, block->size_bytes, block->device, kFreedPattern);
  for (const auto& [old, is_old_pinned] : session.memory.Retire(address)) {
    if ((is_old_pinned ? Real().aclrtFreeHost(old) : Real().aclrtFree(old)) != ACL_SUCCESS) DropMessage();
  }
  return ACL_SUCCESS;
}

bool WritesDevice(aclrtMemcpyKind kind) {
  return kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE ||
         kind == ACL_MEMCPY_DEVICE_TO_DEVICE || kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE ||
         kind == ACL_MEMCPY_INTER_DEVICE_TO_DEVICE;
}

bool ReadsDevice(aclrtMemcpyKind kind) {
  return kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE ||
         kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE || kind == ACL_MEMCPY_INTER_DEVICE_TO_DEVICE;
}

void CheckOnDevice(const char* name, const Access& access) {
  Session& session = TheSession();
  const auto block = session.memory.Find(access.address);
  if (!session.host_pointers && !(block && block->is_on_device())) RefuseOutside(name, access);
}

// What a copy or a fill reads and writes, in memory that it may use; empty for arguments that the library refuses.
std::vector<Access> CheckCopy(void* dst, size_t dst_bytes, const void* src, size_t count, aclrtMemcpyKind kind) {
  if (dst == nullptr || src == nullptr || count == 0 || count > dst_bytes) return {};
  const Access written{dst, count, true};
  const Access read{src, count, false};
  if (WritesDevice(kind)) CheckOnDevice("dst", written);
  if (ReadsDevice(kind)) CheckOnDevice("src", read);
  CheckReachable({written, read});
  return {written, read};
}

std::vector<Access> CheckFill(void* address, size_t size_bytes, size_t count) {
  if (address == nullptr || count == 0 || count > size_bytes) return {};
  const Access written{address, count, true};
  CheckOnDevice("devPtr", written);
  CheckReachable({written});
  return {written};
}

bool IsPageable(const void* side) {
  const auto block = TheSession().memory.Find(side);
  return !block || block->is_freed;
}

bool IsPinned(const void* side) {
  const auto block = TheSession().memory.Find(side);
  return block && !block->is_freed && !block->is_on_device();
}

void CheckAsynchronous(const void* side) {
  const int32_t release = TheSession().release;
  if (IsPageable(side) && release < kPageableCopies) {
    Refuse("pageable async copy", "memory that is not from aclrtMallocHost; given in " + Origin::Here().Text());
  }
  if (reinterpret_cast<uintptr_t>(side) % kCopyAlignment != 0 && release < kUnalignedCopies) {
    Refuse("misaligned async copy", "an address that is no multiple of " + std::to_string(kCopyAlignment) +
                                        "; given in " + Origin::Here().Text());
  }
}

aclError Queue(aclError code, aclrtStream stream, const std::vector<Access>& accesses, const char* what,
               uint64_t number, Snapshot snapshot = {}) {
  if (code == ACL_SUCCESS && !accesses.empty()) {
    TheSession().work.Begin(NameOf(stream), accesses, what, number, snapshot);
  }
  return code;
}

}  // namespace

aclError checked::aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return Allocate(Real().aclrtMalloc, devPtr, size, policy, true);
}

aclError checked::aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return Allocate(Real().aclrtMallocAlign32, devPtr, size, policy, false);
}

aclError checked::aclrtFree(void* devPtr) { return Free(Real().aclrtFree, devPtr, false); }

aclError checked::aclrtMallocHost(void** hostPtr, size_t size) {
  return NoteAllocation(Real().aclrtMallocHost(hostPtr, size), hostPtr, size, size, kPinned);
}

aclError checked::aclrtFreeHost(void* hostPtr) { return Free(Real().aclrtFreeHost, hostPtr, true); }

aclError checked::aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  for (const Access& access : CheckCopy(dst, destMax, src, count, kind)) CheckUnused(access);
  ++TheSession().copies;
  return Real().aclrtMemcpy(dst, destMax, src, count, kind);
}

aclError checked::aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                                   aclrtStream stream) {
  CheckStream(stream);
  const std::vector<Access> accesses = CheckCopy(dst, destMax, src, count, kind);
  bool ends_at_once = false;
  if (kind != ACL_MEMCPY_HOST_TO_HOST) {
    for (const Access& access : accesses) {
      CheckAsynchronous(access.address);
      ends_at_once = ends_at_once || IsPageable(access.address);
    }
  }
  const uint64_t number = ++TheSession().copies;
  if (ends_at_once) return Real().aclrtMemcpyAsync(dst, destMax, src, count, kind, stream);
  Snapshot snapshot;
  for (const Access& access : accesses) {
    if (access.writes) TheSession().work.CheckSources(access);
    // HOST_TO_BUF_TO_DEVICE has read the source when it returns.
    if (!access.writes && IsPinned(src) && kind != ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
      snapshot = TakeSnapshot(src, count);
    }
  }
  return Queue(Real().aclrtMemcpyAsync(dst, destMax, src, count, kind, stream), stream, accesses, "copy", number,
               snapshot);
}

aclError checked::aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  for (const Access& access : CheckFill(devPtr, maxCount, count)) CheckUnused(access);
  return Real().aclrtMemset(devPtr, maxCount, value, count);
}

aclError checked::aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  CheckStream(stream);
  const std::vector<Access> accesses = CheckFill(devPtr, maxCount, count);
  return Queue(Real().aclrtMemsetAsync(devPtr, maxCount, value, count, stream), stream, accesses, "fill", 0);
}

aclError checked::aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  const aclError code = Real().aclrtGetMemInfo(attr, free, total);
  if (code == ACL_SUCCESS && *total != 0) *free += TheSession().memory.kept_bytes(CurrentDevice());
  return code;
}

}  // namespace acl_strict
