// What is known from the first aclInit to the last finalize.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "acl/acl_base.h"
#include "memory_ledger.h"
#include "object_ledger.h"
#include "work_ledger.h"

namespace acl_strict {

struct Session {
  struct DeviceUse {
    int uses = 0;  // calls of aclrtSetDevice that no aclrtResetDevice has undone
    aclrtContext default_context = nullptr;
  };

  std::atomic<bool> is_on{true};
  std::atomic<bool> host_pointers{false};  // any memory of the process is as good as the device's
  std::atomic<int32_t> release{0};         // of CANN, whose rules hold: 805 is 8.5; 0 is the strictest of all
  std::atomic<uint64_t> starts{0};
  std::atomic<uint64_t> allocations{0};
  std::atomic<uint64_t> copies{0};
  std::atomic<uint64_t> launches{0};
  MemoryLedger memory;
  ObjectLedger objects;
  WorkLedger work;
  std::mutex mutex;  // of what follows
  std::map<int32_t, DeviceUse> devices;
  std::optional<int64_t> determinism;
};

// Never destroyed, because threads may outlive everything else.
[[nodiscard]] Session& TheSession();

// Refuses calls of a forked child process.
void CheckNotForked();

// The thread's own message, which aclGetRecentErrMsg returns before the library's.
void SetMessage(const char* function, const char* text, int code);

// -1 without a device.
[[nodiscard]] int32_t CurrentDevice();

// Refuses a stream that has ended.
void CheckStream(aclrtStream stream);
// Null names the default stream of the calling thread's context.
[[nodiscard]] StreamName NameOf(aclrtStream stream);

// Frees the memory and destroys the objects that are kept.
void ReleaseKept();

}  // namespace acl_strict
