// Faults that the configuration asks for, each at the n-th allocation, launch, copy, start of a device or end of a
// stream since aclInit, or since some launches were over.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl_base.h"

namespace acl_host {

// What is counted. Calls with invalid arguments are not.
enum class Site { kAllocation, kLaunch, kCopy, kSetDevice, kDestroyStream, kCount };

enum class FaultKind { kOutOfMemory, kLaunchError, kHang, kSlowCopy, kCopyError, kSetDeviceError, kHangingCall };

struct Fault {
  FaultKind kind;
  Site site;
  uint64_t at;
  uint64_t count;                                     // how many from at on
  aclError code;                                      // of an error, and of a hang that the device ends; or 0
  std::optional<std::chrono::milliseconds> duration;  // of a slow copy and of a hang; empty: for ever
};

// One allocation, launch and so on.
struct Occurrence {
  uint64_t number;
  const Fault* fault;  // or null; lives as long as the plan

  [[nodiscard]] bool Has(FaultKind kind) const { return fault != nullptr && fault->kind == kind; }
};

class FaultPlan {
 public:
  FaultPlan(std::vector<Fault> faults, int64_t after_launches)
      : faults_(std::move(faults)), launches_before_(after_launches), has_begun_(after_launches == 0) {}

  // Counts one more; if several faults apply, the first in the configuration does. A hanging call blocks here, in the
  // caller's thread, and holds no lock.
  [[nodiscard]] Occurrence Next(Site site) {
    if (!has_begun_ && !Begin(site)) return {0, nullptr};
    const uint64_t number = ++numbers_[static_cast<size_t>(site)];
    for (const Fault& fault : faults_) {
      if (fault.site == site && number >= fault.at && number - fault.at < fault.count) {
        if (fault.kind == FaultKind::kHangingCall) Block(fault.duration);
        return {number, &fault};
      }
    }
    return {number, nullptr};
  }

 private:
  // Begins with the first allocation or launch after those before: a copy may belong to the last of them.
  [[nodiscard]] bool Begin(Site site) {
    if (site != Site::kAllocation && site != Site::kLaunch) return false;
    if (launches_before_ == 0) return has_begun_ = true;
    if (site == Site::kLaunch) --launches_before_;
    return false;
  }

  // A driver that hangs gives nobody a way to end it, so neither does this.
  static void Block(const std::optional<std::chrono::milliseconds>& duration) {
    do std::this_thread::sleep_for(duration.value_or(std::chrono::hours(1)));
    while (!duration);
  }

  const std::vector<Fault> faults_;
  std::atomic<int64_t> launches_before_;
  std::atomic<bool> has_begun_;
  std::array<std::atomic<uint64_t>, static_cast<size_t>(Site::kCount)> numbers_{};
};

}  // namespace acl_host
