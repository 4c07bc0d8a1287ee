// Bytes behind what a kernel uses of its workspace. They are written before it runs and looked at afterwards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace acl_host {

inline constexpr uint64_t kRedZoneBytes = 512;

class RedZone {
 public:
  // begin may be null: a launch without workspace has no red zone.
  explicit RedZone(std::byte* begin) : begin_(begin) {
    if (begin_ != nullptr) std::memset(begin_, static_cast<int>(kPattern), kRedZoneBytes);
  }

  // How many of its bytes are still as written before the first that is not: kRedZoneBytes if it is whole.
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
