// Faults that the configuration asks for, each at the n-th allocation, launch or copy since aclInit.
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
enum class Site { kAllocation, kLaunch, kCopy };

enum class FaultKind { kOutOfMemory, kLaunchError, kHang, kSlowCopy, kCopyError, kHangingCall };

struct Fault {
  FaultKind kind;
  Site site;
  uint64_t at;
  uint64_t count;                                     // how many from at on
  aclError code;                                      // of the two kinds of error
  std::optional<std::chrono::milliseconds> duration;  // of a slow copy and of a hang; empty: for ever
};

// One allocation, launch or copy.
struct Occurrence {
  uint64_t number;
  const Fault* fault;  // or null; lives as long as the plan

  [[nodiscard]] bool Has(FaultKind kind) const { return fault != nullptr && fault->kind == kind; }
};

class FaultPlan {
 public:
  explicit FaultPlan(std::vector<Fault> faults) : faults_(std::move(faults)) {}

  // Counts one more; if several faults apply, the first in the configuration does. A hanging call blocks here, in the
  // caller's thread, and holds no lock.
  [[nodiscard]] Occurrence Next(Site site) {
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
  // A driver that hangs gives nobody a way to end it, so neither does this.
  static void Block(const std::optional<std::chrono::milliseconds>& duration) {
    do std::this_thread::sleep_for(duration.value_or(std::chrono::hours(1)));
    while (!duration);
  }

  const std::vector<Fault> faults_;
  std::array<std::atomic<uint64_t>, 3> numbers_{};
};

}  // namespace acl_host
