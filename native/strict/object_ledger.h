// Tensors, integer arrays, executors, streams and events, live and ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "report.h"

namespace acl_strict {

inline constexpr const char* kExecutor = "an executor";

class ObjectLedger {
 public:
  // kind is a noun; facts are what there is to know about the object. Replaces an ended object of the same address.
  void Add(const char* kind, const void* object, std::shared_ptr<void> facts = nullptr);

  // Null for an unknown object.
  template <typename Facts>
  [[nodiscard]] std::shared_ptr<Facts> FactsOf(const void* object) const {
    return std::static_pointer_cast<Facts>(FindFacts(object));
  }

  // Each reports and refuses the use of an object that ended; for handles with the code that the runtime has for them.
  void CheckAlive(const void* object) const { Check(object, 0); }
  void CheckHandle(const void* handle) const;

  [[nodiscard]] bool HasEnded(const void* object) const;

  // Stays so until the process ends.
  [[nodiscard]] bool is_executor_destroyed_twice() const { return is_executor_destroyed_twice_; }

  enum class End { kDestroyed, kLaunched };

  // Ends an object. If destroy is given, it is to be called later, so that no other object soon gets the same address.
  // Returns false for an unknown object, which the caller destroys.
  using Destroy = std::function<void()>;
  [[nodiscard]] bool Retire(const void* object, End end, Destroy destroy = nullptr);

  // Takes back an end that the library refused.
  void Revive(const void* object);

  // Ends all live objects of a kind whose facts are meant.
  void RetireIf(const char* kind, const std::function<bool(const void* facts)>& is_meant);
  [[nodiscard]] bool HasLive(const char* kind, const std::function<bool(const void* facts)>& is_meant) const;

  // Destroys all objects that were to be destroyed later.
  void DestroyKept();

  [[nodiscard]] std::vector<std::string> Live() const;
  void Clear();

 private:
  struct Record {
    const char* kind;
    Origin made;
    std::shared_ptr<void> facts;
    uint64_t number;
    std::optional<Origin> ended{};
    End end = End::kDestroyed;
    Destroy destroy{};
  };
  struct Ended {
    const void* object;
    uint64_t number;  // another object may have the address now
  };

  void Check(const void* object, int code) const;
  [[nodiscard]] std::shared_ptr<void> FindFacts(const void* object) const;
  [[nodiscard]] static std::string Text(const Record& record);
  // Both take the lock.
  void EndRecord(const void* object, Record& record, End end, Destroy destroy);
  [[nodiscard]] std::vector<Destroy> Forget(size_t most);

  mutable std::mutex mutex_;
  std::unordered_map<const void*, Record> records_;
  std::deque<Ended> ended_;  // the oldest first
  uint64_t added_ = 0;
  mutable std::atomic<bool> is_executor_destroyed_twice_{false};
};

}  // namespace acl_strict
