// What strict mode knows about tensors, integer arrays, executors, streams and events, alive and gone.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "strict/origin.h"

namespace acl_host {

class ObjectLedger {
 public:
  // kind is a noun; object is an address, or a handle that is never used twice.
  void Add(const char* kind, const void* object);

  // How an object ended.
  enum class End { kDestroyed, kLaunched };

  // Ends an object. It is kept aside for a while before it is deleted, so that its address is not soon that of another;
  // a handle has nothing to delete. An object that ended before is reported and refused. False for an object that was
  // made before strict mode began: the caller deletes it.
  using Delete = void (*)(const void*);
  [[nodiscard]] bool Retire(const void* object, End end, Delete delete_object);

  // Reports and refuses the use of an object that ended.
  void CheckAlive(const void* object) const;

  // The same for a handle that was not found: reports it if it once existed.
  void ReportIfEnded(const void* handle) const;

  [[nodiscard]] bool HasEnded(const void* object) const;

  [[nodiscard]] std::vector<std::string> Live() const;
  void Clear();

 private:
  struct Record {
    const char* kind;
    Origin made;
    std::optional<Origin> ended;
    End end = End::kDestroyed;
    std::shared_ptr<const void> kept;
  };

  // Empty if the object did not end.
  [[nodiscard]] std::string EndedText(const void* object, const char* again) const;
  [[nodiscard]] static std::string Text(const Record& record);

  mutable std::mutex mutex_;
  std::unordered_map<const void*, Record> records_;
  std::deque<const void*> ended_;  // the oldest first
};

}  // namespace acl_host
