// Pieces of workspace that the threads of a parallel loop lease.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace acl_host {

class ScratchSlots {
 public:
  ScratchSlots(std::byte* memory, int64_t count, size_t slot_bytes) {
    for (int64_t slot = 0; slot < count; ++slot) free_.push_back(memory + static_cast<size_t>(slot) * slot_bytes);
  }

  // Waits for a free slot, holds it, and returns it at the end of its scope.
  class Lease {
   public:
    explicit Lease(ScratchSlots& slots) : slots_(slots), memory_(slots.Take()) {}
    ~Lease() { slots_.Return(memory_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    [[nodiscard]] std::byte* memory() const { return memory_; }

   private:
    ScratchSlots& slots_;
    std::byte* const memory_;
  };

 private:
  std::byte* Take() {
    std::unique_lock<std::mutex> lock(mutex_);
    returned_.wait(lock, [this] { return !free_.empty(); });
    std::byte* const memory = free_.back();
    free_.pop_back();
    return memory;
  }

  void Return(std::byte* memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(memory);
    returned_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::byte*> free_;
};

}  // namespace acl_host
