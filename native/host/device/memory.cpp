#include "device/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <utility>

#include "errors/exceptions.h"

namespace acl_host {
namespace {

constexpr size_t kAlignment = 64;    // of every block
constexpr size_t kGranularity = 32;  // of every size
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLargestRequest = SIZE_MAX / 2;

size_t RoundUp(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

void CheckSize(size_t size_bytes) {
  if (size_bytes == 0) throw Error(ACL_ERROR_INVALID_PARAM, "size must not be 0");
}

Error OutOfMemory(const std::string& what) { return {ACL_ERROR_RT_MEMORY_ALLOCATION, "out of memory: " + what}; }

}  // namespace

void* Memory::AllocateOnDevice(int32_t device, size_t size_bytes, size_t padding_bytes, Pages pages) {
  CheckSize(size_bytes);
  if (size_bytes > kLargestRequest) throw OutOfMemory(std::to_string(size_bytes) + " bytes asked");
  const size_t charged_bytes = RoundUp(size_bytes, kGranularity) + padding_bytes;
  uint64_t& used_bytes = used_bytes_[static_cast<size_t>(device)];
  {
    // Reserves first, so that two threads cannot both take the last free bytes.
    const std::lock_guard<std::mutex> lock(mutex_);
    if (charged_bytes > limit_bytes_ - used_bytes) {
      throw OutOfMemory(std::to_string(charged_bytes) + " bytes asked, " + std::to_string(used_bytes) +
                        " bytes in use, limit of device " + std::to_string(device) + " " +
                        std::to_string(limit_bytes_) + " bytes");
    }
    used_bytes += charged_bytes;
  }
  auto memory = Allocate(charged_bytes, pages);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!memory) {
    used_bytes -= charged_bytes;
    throw OutOfMemory("the host cannot provide " + std::to_string(charged_bytes) + " bytes");
  }
  void* const address = memory.get();
  blocks_.emplace(reinterpret_cast<uintptr_t>(address), Block{std::move(memory), charged_bytes, device});
  return address;
}

void* Memory::AllocatePinned(size_t size_bytes) {
  CheckSize(size_bytes);
  auto memory = size_bytes > kLargestRequest ? nullptr : Allocate(size_bytes, Pages::kNormal);
  if (!memory) throw OutOfMemory("the host cannot provide " + std::to_string(size_bytes) + " bytes");
  void* const address = memory.get();
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_.emplace(reinterpret_cast<uintptr_t>(address), Block{std::move(memory), size_bytes, kPinned});
  return address;
}

std::optional<Memory::Found> Memory::Find(const void* address) const {
  const auto key = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard<std::mutex> lock(mutex_);
  auto next = blocks_.upper_bound(key);
  if (next == blocks_.begin()) return std::nullopt;
  const auto& [base, block] = *std::prev(next);
  if (key - base >= block.size_bytes) return std::nullopt;
  return Found{base, block.size_bytes, block.device};
}

uint64_t Memory::used_bytes(int32_t device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return used_bytes_[static_cast<size_t>(device)];
}

Memory::Owned Memory::Allocate(size_t size_bytes, Pages pages) {
  const bool is_huge = pages == Pages::kHugeFirst && size_bytes >= kHugePage;
  void* address = nullptr;
  if (posix_memalign(&address, is_huge ? kHugePage : kAlignment, size_bytes) != 0) return nullptr;
  // Only a hint: a host without free huge pages uses normal ones.
  if (is_huge) (void)madvise(address, size_bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return Owned(address);
}

Memory::Owned Memory::Release(void* address, bool pinned) {
  if (address == nullptr) throw Error(ACL_ERROR_INVALID_PARAM, "the address must not be null");
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (found == blocks_.end() || (found->second.device == kPinned) != pinned) {
    throw Error(ACL_ERROR_RT_PARAM_INVALID, std::string("the address is not one of a live allocation of ") +
                                                (pinned ? "pinned host memory" : "device memory"));
  }
  Block& block = found->second;
  if (!pinned) used_bytes_[static_cast<size_t>(block.device)] -= block.size_bytes;
  Owned memory = std::move(block.memory);
  blocks_.erase(found);
  return memory;
}

}  // namespace acl_host
