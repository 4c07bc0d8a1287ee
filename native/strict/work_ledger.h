// Copies, fills and launches that were queued, and may still use memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

#include "acl/acl_rt.h"
#include "report.h"

namespace acl_strict {

// Bytes that an operation reads or writes.
struct Access {
  const void* address;
  uint64_t size_bytes;
  bool writes;
};

[[nodiscard]] bool Overlap(const Access& first, const Access& second);

// The source of a copy as it was when the copy was queued. Empty if the device does not read it from the host.
struct Snapshot {
  const void* address = nullptr;
  uint64_t size_bytes = 0;
  size_t digest = 0;
};

[[nodiscard]] Snapshot TakeSnapshot(const void* address, uint64_t size_bytes);

// A stream, or the default stream of its context.
struct StreamName {
  aclrtStream stream;
  aclrtContext context;
  int32_t device;

  [[nodiscard]] bool operator==(const StreamName& other) const {
    return stream == other.stream && context == other.context;
  }
};

// The work of a stream up to a number.
struct Mark {
  StreamName name{};
  uint64_t number = 0;
};

// Whether the stream has work to do, as far as the library can say.
[[nodiscard]] bool IsBusy(const StreamName& name);

class WorkLedger {
 public:
  void Begin(const StreamName& name, std::vector<Access> accesses, const char* what, uint64_t number,
             Snapshot snapshot = {});

  // Work is about to be queued that overwrites sources: reports those that have changed, and forgets them all.
  void CheckSources(const Access& access);

  // The stream waits for an event: once it has ended this, so has what the event was recorded after.
  void BeginWait(const StreamName& name, const Mark& awaited);

  // The number of the work that began last. Ask before the library is, since other threads may begin more meanwhile.
  [[nodiscard]] uint64_t begun() const;

  // The work up to this number has ended: of a stream, or of all streams for which a predicate holds. Reports sources
  // that have changed meanwhile: the device may have read them so.
  void End(const StreamName& name, uint64_t number);
  template <typename Predicate>
  void EndIf(const Predicate& is_meant, uint64_t number = UINT64_MAX) {
    Remove([&](const Work& work) { return work.number <= number && is_meant(work.name); });
  }

  // The same for work that is dropped: what it waited for goes on.
  template <typename Predicate>
  void DropIf(const Predicate& is_meant) {
    const std::lock_guard<std::mutex> lock(mutex_);
    works_.remove_if([&](const Work& work) { return is_meant(work.name); });
  }

  // The work, not ended yet, that the access would disturb or be disturbed by. Asks the library whether the stream is
  // busy, because the program may know of its end in a way that is not seen here. The work of the stream that makes the
  // access, if one does, has ended by then.
  [[nodiscard]] std::optional<Origin> FindUser(const Access& access, const StreamName* own = nullptr);

 private:
  struct Work {
    StreamName name;
    uint64_t number;
    std::vector<Access> accesses;
    Origin origin;
    Snapshot source{};
    Mark awaited{};
  };

  static void CheckSource(const Work& work);
  void Remove(const std::function<bool(const Work&)>& has_ended);
  [[nodiscard]] const Work* Find(const Access& access, const StreamName* own) const;

  mutable std::mutex mutex_;
  std::list<Work> works_;
  uint64_t begun_ = 0;
};

}  // namespace acl_strict
