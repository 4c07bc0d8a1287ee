// Bytes behind the part of the workspace that a kernel uses. They are written before it runs and checked afterwards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace acl_host {

inline constexpr uint64_t kRedZoneBytes = 512;

class RedZone {
 public:
  // begin is null for a launch without workspace, which has no red zone.
  explicit RedZone(std::byte* begin) : begin_(begin) {
    if (begin_ != nullptr) std::memset(begin_, static_cast<int>(kPattern), kRedZoneBytes);
  }

  // The number of unchanged bytes before the first changed one; kRedZoneBytes if all are unchanged.
  [[nodiscard]] uint64_t IntactBytes() const {
    if (begin_ == nullptr) return kRedZoneBytes;
    const auto* const damage =
        std::find_if(begin_, begin_ + kRedZoneBytes, [](std::byte value) { return value != kPattern; });
    return static_cast<uint64_t>(damage - begin_);
  }

 private:
  static constexpr std::byte kPattern{0xA5};

  std::byte* const begin_;
};

}  // namespace acl_host
