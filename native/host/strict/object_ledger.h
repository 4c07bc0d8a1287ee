// Strict mode's record of tensors, integer arrays, executors, streams and events, live and ended.
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

  // Ends an object. Delays its deletion, so that another object does not soon get the same address; a handle has
  // nothing to delete. Reports and refuses an object that ended before. Returns false for an object that was made
  // before strict mode began: the caller deletes it.
  using Delete = void (*)(const void*);
  [[nodiscard]] bool Retire(const void* object, End end, Delete delete_object);

  // Reports and refuses the use of an object that ended.
  void CheckAlive(const void* object) const;

  // Reports a handle that was not found, if it existed earlier.
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

  // Empty if the object has not ended.
  [[nodiscard]] std::string EndedText(const void* object, const char* again) const;
  [[nodiscard]] static std::string Text(const Record& record);

  mutable std::mutex mutex_;
  std::unordered_map<const void*, Record> records_;
  std::deque<const void*> ended_;  // the oldest first
};

}  // namespace acl_host
