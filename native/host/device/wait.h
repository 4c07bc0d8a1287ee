// Waits with the ABI's timeouts: milliseconds; -1 for no limit; 0 polls once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "errors/exceptions.h"

namespace acl_host {

using Clock = std::chrono::steady_clock;

// Empty means no limit. A point in time rather than a duration, so that one limit can cover several waits.
using Deadline = std::optional<Clock::time_point>;

[[nodiscard]] inline Deadline DeadlineAfter(int32_t timeout_ms) {
  if (timeout_ms < -1) {
    throw UnkeptError(ACL_ERROR_RT_PARAM_INVALID, "timeout must be -1 or more, not " + std::to_string(timeout_ms));
  }
  if (timeout_ms == -1) return std::nullopt;
  return Clock::now() + std::chrono::milliseconds(timeout_ms);
}

// False if the deadline passed before the condition held.
template <typename Condition>
[[nodiscard]] bool WaitUntil(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                             const Deadline& deadline, Condition condition) {
  if (deadline) return changed.wait_until(lock, *deadline, condition);
  changed.wait(lock, condition);
  return true;
}

}  // namespace acl_host
