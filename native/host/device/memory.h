// Device memory and pinned host memory. Both are ordinary memory of this process; device memory has a limit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace acl_host {

class Memory {
 public:
  // Other processes use used_bytes of each device.
  Memory(int32_t devices, uint64_t limit_bytes, uint64_t used_bytes)
      : limit_bytes_(limit_bytes), used_bytes_(static_cast<size_t>(devices), std::min(used_bytes, limit_bytes)) {}

  // kHugeFirst takes pages of 2 MiB if the host has them, so that a large tensor needs few page faults and TLB entries.
  enum class Pages { kNormal, kHugeFirst };

  // The memory is not initialised. Counts size_bytes rounded up to a multiple of 32, plus the padding.
  [[nodiscard]] void* AllocateOnDevice(int32_t device, size_t size_bytes, size_t padding_bytes, Pages pages);
  [[nodiscard]] void* AllocatePinned(size_t size_bytes);

  struct Free {
    void operator()(void* address) const { std::free(address); }
  };
  using Owned = std::unique_ptr<void, Free>;

  // Removes a block; the memory is freed when the returned owner is destroyed.
  [[nodiscard]] Owned ReleaseOnDevice(void* address) { return Release(address, false); }
  [[nodiscard]] Owned ReleasePinned(void* address) { return Release(address, true); }

  struct Found {
    uintptr_t base;
    size_t size_bytes;
    int32_t device;

    [[nodiscard]] bool pinned() const { return device == kPinned; }
    [[nodiscard]] bool Holds(const void* address, uint64_t count) const {
      const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - base;
      return offset <= size_bytes && count <= size_bytes - offset;
    }
  };

  // The live block that contains the address.
  [[nodiscard]] std::optional<Found> Find(const void* address) const;

  // Whether the memory is neither device memory nor pinned: a device cannot copy from it on its own.
  [[nodiscard]] bool IsPageable(const void* address) const { return !Find(address); }

  [[nodiscard]] uint64_t limit_bytes() const { return limit_bytes_; }
  [[nodiscard]] uint64_t used_bytes(int32_t device) const;

 private:
  static constexpr int32_t kPinned = -1;

  struct Block {
    Owned memory;
    size_t size_bytes;
    int32_t device;  // or kPinned
  };

  [[nodiscard]] static Owned Allocate(size_t size_bytes, Pages pages);
  [[nodiscard]] Owned Release(void* address, bool pinned);

  const uint64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::vector<uint64_t> used_bytes_;
  std::map<uintptr_t, Block> blocks_;
};

}  // namespace acl_host
