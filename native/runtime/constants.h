// Inputs that are the same in all calls of a kind. A device has one copy of each, made when the first call needs it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "memory_pool.h"

namespace aclgrad {

using Constant = std::shared_ptr<const std::vector<std::byte>>;

class Constants {
 public:
  Constants(const AclLibrary& library, MemorySource source) : library_(library), source_(std::move(source)) {}
  ~Constants();
  Constants(const Constants&) = delete;
  Constants& operator=(const Constants&) = delete;

  // Where the device has the bytes; in the host's memory if it takes host addresses. Any thread may call whose context
  // is the device's. Throws AclError.
  [[nodiscard]] void* At(const Constant& constant);

 private:
  const AclLibrary& library_;
  const MemorySource source_;
  std::mutex mutex_;
  std::map<Constant, void*> copies_;
};

}  // namespace aclgrad
