// Faults from the configuration: each at the n-th allocation, launch, copy, aclrtSetDevice or stream destruction since
// aclInit, or since a given launch.
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

enum class FaultKind {
  kOutOfMemory,
  kLaunchError,
  kUnwrittenOutput,
  kHang,
  kSlowCopy,
  kCopyError,
  kSetDeviceError,
  kHangingCall,
};

struct Fault {
  FaultKind kind;
  Site site;
  uint64_t at;
  uint64_t count;                                     // how many times, starting at `at`
  aclError code;                                      // of an error, or of a hang that the device ends; 0 for none
  std::optional<std::chrono::milliseconds> duration;  // of a slow copy or a hang; empty for ever
};

// One counted allocation, launch and so on.
struct Occurrence {
  uint64_t number;
  const Fault* fault;  // may be null; lives as long as the plan

  [[nodiscard]] bool Has(FaultKind kind) const { return fault != nullptr && fault->kind == kind; }
};

class FaultPlan {
 public:
  FaultPlan(std::vector<Fault> faults, int64_t after_launches)
      : faults_(std::move(faults)), launches_before_(after_launches), has_begun_(after_launches == 0) {}

  // Counts one more. If several faults apply, the first of the configuration wins. A hanging call blocks here, on the
  // calling thread, without a lock.
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

  // Cannot be interrupted, because a hanging driver cannot be either.
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
