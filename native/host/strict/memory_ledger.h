// Strict mode's record of device memory and pinned memory, live and freed, and of the work that uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "strict/origin.h"

namespace acl_host {

// Bytes that an operation reads or writes.
struct Access {
  const void* address;
  uint64_t size_bytes;
  bool writes;
};

[[nodiscard]] bool Overlap(const Access& first, const Access& second);

class MemoryLedger {
 public:
  // Fills the memory with a pattern.
  void Add(void* address, size_t size_bytes, const char* kind, uint64_t number);

  // Each check reports and refuses a misuse.
  void CheckFree(const void* address) const;                    // a double free, or memory that work uses
  void CheckReachable(const Access& access) const;              // freed memory, or bytes beyond the end of a block
  void CheckUnused(const std::vector<Access>& accesses) const;  // a conflict with queued or running work

  // Fills freed memory with another pattern and keeps it for a while before it is reused.
  void Retire(const void* address, std::shared_ptr<void> memory);

  // Registers queued work; it ends when the returned handle is destroyed.
  [[nodiscard]] std::shared_ptr<const void> BeginUse(const std::vector<Access>& accesses, const char* what,
                                                     uint64_t number);

  [[nodiscard]] std::vector<std::string> Live() const;
  void Clear();

 private:
  struct Block {
    size_t size_bytes;
    const char* kind;
    Origin made;
    std::optional<Origin> freed;
    std::shared_ptr<void> kept;
  };
  struct Use {
    std::vector<Access> accesses;
    Origin origin;
  };
  using Blocks = std::map<uintptr_t, Block>;

  [[nodiscard]] Blocks::const_iterator Find(uintptr_t address) const;
  [[nodiscard]] const Use* FindUse(const Access& access) const;
  [[nodiscard]] static std::string Text(const Block& block);

  mutable std::mutex mutex_;
  Blocks blocks_;
  std::deque<uintptr_t> freed_;  // the oldest first
  uint64_t freed_bytes_ = 0;
  std::list<Use> uses_;
};

}  // namespace acl_host
