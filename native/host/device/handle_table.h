// Maps the opaque handles of the ABI to the objects behind them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "errors/exceptions.h"

namespace acl_host {

// Handles are numbers, not addresses, and a process never uses a number twice. So a destroyed handle is always
// detected, and never reaches a new object at the same address.
inline void* NextHandle() {
  static std::atomic<uintptr_t> next{0x1000};
  return reinterpret_cast<void*>(next.fetch_add(0x10));
}

template <typename T>
class HandleTable {
 public:
  explicit HandleTable(const char* kind) : kind_(kind) {}

  void* Add(std::shared_ptr<T> object) {
    void* const handle = NextHandle();
    const std::lock_guard<std::mutex> lock(mutex_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  [[nodiscard]] std::shared_ptr<T> FindOrNull(void* handle) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  [[nodiscard]] std::shared_ptr<T> Find(void* handle) const {
    std::shared_ptr<T> object = FindOrNull(handle);
    if (!object) {
      throw Error(ACL_ERROR_RT_INVALID_HANDLE, "this " + kind_ + " does not exist or was destroyed");
    }
    return object;
  }

  // True for only one of several callers that destroy the same handle at once.
  [[nodiscard]] bool Remove(void* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return objects_.erase(handle) == 1;
  }

  [[nodiscard]] size_t size() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return objects_.size();
  }

  [[nodiscard]] std::vector<std::pair<void*, std::shared_ptr<T>>> All() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {objects_.begin(), objects_.end()};
  }

 private:
  const std::string kind_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<T>> objects_;
};

}  // namespace acl_host
