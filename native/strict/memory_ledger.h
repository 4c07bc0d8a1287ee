// Device memory and pinned memory, live and freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "report.h"
#include "work_ledger.h"

namespace acl_strict {

constexpr int32_t kPinned = -1;  // stands for a device

class MemoryLedger {
 public:
  // charged_bytes is what the allocation takes of the device.
  void Add(void* address, size_t size_bytes, size_t charged_bytes, int32_t device, uint64_t number);

  struct Found {
    uintptr_t base;
    size_t size_bytes;
    size_t charged_bytes;
    int32_t device;
    bool is_freed;

    [[nodiscard]] bool is_on_device() const { return device != kPinned; }
  };
  // The block that the address lies in, live or freed.
  [[nodiscard]] std::optional<Found> Find(const void* address) const;

  // Both report and refuse a misuse.
  void CheckFree(const void* address, WorkLedger& work) const;  // a double free, or memory that work uses
  void CheckReachable(const Access& access) const;              // freed memory, or bytes beyond a block's end

  // For reports: what the memory at the address is.
  [[nodiscard]] std::string TextOf(const void* address) const;

  struct Kept {
    void* address;
    bool is_pinned;
  };
  // Ends a live block: its memory is to be kept for a while before it is freed and may be given out again. Returns
  // memory to free now.
  [[nodiscard]] std::vector<Kept> Retire(const void* address);
  // Returns all memory that is kept, to be freed.
  [[nodiscard]] std::vector<Kept> TakeKept();
  // What is kept of the device's memory, which counts as free.
  [[nodiscard]] uint64_t kept_bytes(int32_t device) const;

  [[nodiscard]] std::vector<std::string> Live() const;
  void Clear();

 private:
  struct Block {
    size_t size_bytes;
    size_t charged_bytes;
    int32_t device;
    Origin made;
    std::optional<Origin> freed;
  };
  using Blocks = std::map<uintptr_t, Block>;

  [[nodiscard]] Blocks::const_iterator BlockOf(const void* address) const;
  [[nodiscard]] static std::string Text(const Block& block);
  void TakeOldest(std::vector<Kept>& taken);

  mutable std::mutex mutex_;
  Blocks blocks_;
  std::deque<uintptr_t> kept_;  // the oldest first
  uint64_t kept_bytes_ = 0;
  std::map<int32_t, uint64_t> kept_bytes_of_;  // by device
};

}  // namespace acl_strict
