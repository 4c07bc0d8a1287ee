// A submitted call: its plan, and the bytes of this call.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "buffers.h"
#include "call.h"
#include "held_staging.h"

namespace aclgrad {

using Contents = std::vector<pybind11::object>;

// A call with the Python objects whose memory it views. The device may keep it after the caller has gone.
struct HeldCall {
  OperatorCall call;
  std::shared_ptr<const CallTemplate> plan;
  std::vector<BufferView> buffers;
  std::vector<std::shared_ptr<HeldStaging>> stagings;
  std::vector<std::vector<std::byte>> copies;  // of inputs: row-major, and in the form that the device reads
  pybind11::object reply;
  std::shared_ptr<const TicketReturn> released;  // of a call, or of all calls of a batch
};

// Throws ValueError for contents that do not fit the plan. Use it with the GIL held.
[[nodiscard]] std::shared_ptr<HeldCall> MakeHeldCall(ServedDevice& served, std::shared_ptr<const CallTemplate> plan,
                                                     const Contents& contents, std::size_t workspace_limit,
                                                     std::shared_ptr<const TicketReturn> released);

// Throws ValueError for a tensor that is closed, or that another device has. `what` names the tensor.
void ExpectOn(const ServedDevice& served, const StagedTensor& tensor, const std::string& what);

// Null for None.
[[nodiscard]] std::shared_ptr<const TicketReturn> ReturnOf(const ServedDevice& served, const pybind11::object& ticket);

// Makes the inputs row-major that have to be, checks those that have a check, and replaces those that the device reads
// in another encoding. What is checked is what the device reads.
void ApplyChecks(HeldCall& held);

// An output that its caller gets, and what stands before it in a reply.
struct ReturnedOutput {
  OutputBytes& bytes;
  const std::string& reply_prefix;
};

[[nodiscard]] std::vector<ReturnedOutput> ReturnedOutputs(HeldCall& held);

// Writes zeros to the outputs that the host has, as an empty call has them.
void WriteZeros(HeldCall& held);

// Keeps the held call alive.
[[nodiscard]] inline std::shared_ptr<const OperatorCall> CallOf(const std::shared_ptr<HeldCall>& held) {
  return {held, &held->call};
}

// Tells work that its caller does not wait any more.
struct Cancellation {
  std::atomic<bool> is_cancelled{false};
};

// Throws NotBegun if the call was cancelled or its deadline has passed.
void ThrowIfOver(const Cancellation& cancellation, Deadline deadline);

}  // namespace aclgrad
