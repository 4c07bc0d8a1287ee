// A submitted call: its plan with the bytes of this one call.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "buffers.h"
#include "call.h"
#include "staging.h"

namespace aclgrad {

using Contents = std::vector<pybind11::object>;

// A call with the Python objects whose memory it views. The device may hold on to it after the caller has gone.
struct HeldCall {
  OperatorCall call;
  std::shared_ptr<const CallPlan> plan;
  std::vector<BufferView> buffers;
  std::vector<std::shared_ptr<HeldStaging>> stagings;
  std::vector<std::vector<std::byte>> encoded;  // inputs in the form that the device reads
  pybind11::object output;
};

// Throws ValueError for contents that do not fit the plan. Use it with the GIL held.
[[nodiscard]] std::shared_ptr<HeldCall> MakeHeldCall(ServedDevice& served, std::shared_ptr<const CallPlan> plan,
                                                     const Contents& contents);

// Checks the values that have a check, and puts encoded ones in their place.
void ApplyChecks(HeldCall& held);

// Keeps the held call alive.
[[nodiscard]] inline std::shared_ptr<const OperatorCall> CallOf(const std::shared_ptr<HeldCall>& held) {
  return {held, &held->call};
}

// Tells work that nobody waits for it any more.
struct Cancellation {
  std::atomic<bool> is_cancelled{false};
};

// Throws for a call that must not begin.
void ThrowIfOver(const Cancellation& cancellation, Deadline deadline);

}  // namespace aclgrad
