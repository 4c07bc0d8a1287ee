// Faults from the configuration: each at the n-th allocation, plan, launch, copy, aclrtSetDevice or stream destruction
// since aclInit, or since a given launch. A fault may count the calls of one operator or data type alone.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl_base.h"

namespace acl_host {

// What is counted. Calls with invalid arguments are not. A pinned allocation counts as an allocation, too.
enum class Site { kAllocation, kPinnedAllocation, kPlan, kLaunch, kCopy, kSetDevice, kDestroyStream, kCount };

enum class FaultKind {
  kOutOfMemory,
  kPhase1Error,
  kPhase2Error,
  kCrash,
  kLaunchError,
  kUnwrittenOutput,
  kHalfOutput,
  kNanOutput,
  kHang,
  kSlowCopy,
  kCopyError,
  kSetDeviceError,
  kHangingCall,
};

// The operator of a plan or a launch.
struct CalledOperator {
  std::string_view name;                     // of phase 2
  aclDataType data_type = ACL_DT_UNDEFINED;  // of the first tensor
};

struct Fault {
  FaultKind kind;
  Site site;
  uint64_t at;
  uint64_t count;                                     // how many times, starting at `at`
  aclError code;                                      // of an error, or of a hang that the device ends; 0 for none
  std::optional<std::chrono::milliseconds> duration;  // of a slow copy or a hang; empty for ever
  std::string operator_name{};                        // of the calls that count; empty for all
  aclDataType data_type = ACL_DT_UNDEFINED;           // of the calls that count; undefined for all

  [[nodiscard]] bool Counts(Site counted, const CalledOperator& called) const {
    return site == counted && (operator_name.empty() || operator_name == called.name) &&
           (data_type == ACL_DT_UNDEFINED || data_type == called.data_type);
  }
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
      : faults_(std::move(faults)),
        counts_(faults_.size()),
        launches_before_(after_launches),
        has_begun_(after_launches == 0) {}

  // Counts one more. If several faults apply, the first of the configuration wins. A hanging call blocks here, on the
  // calling thread, without a lock.
  [[nodiscard]] Occurrence Next(Site site, const CalledOperator& called = {}) {
    if (!has_begun_ && !Begin(site)) return {0, nullptr};
    Occurrence occurrence{++numbers_[static_cast<size_t>(site)], nullptr};
    for (size_t index = 0; index < faults_.size(); ++index) {
      const Fault& fault = faults_[index];
      if (!fault.Counts(site, called)) continue;
      const uint64_t count = ++counts_[index];
      const bool applies = count >= fault.at && count - fault.at < fault.count;
      if (applies && occurrence.fault == nullptr) occurrence.fault = &fault;
    }
    if (occurrence.Has(FaultKind::kHangingCall)) Block(occurrence.fault->duration);
    return occurrence;
  }

 private:
  // Begins with the first allocation, plan or launch after those before: a copy may belong to the last of them.
  [[nodiscard]] bool Begin(Site site) {
    if (site != Site::kAllocation && site != Site::kPlan && site != Site::kLaunch) return false;
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
  std::vector<std::atomic<uint64_t>> counts_;  // of what each fault counts
  std::atomic<int64_t> launches_before_;
  std::atomic<bool> has_begun_;
  std::array<std::atomic<uint64_t>, static_cast<size_t>(Site::kCount)> numbers_{};
};

}  // namespace acl_host
