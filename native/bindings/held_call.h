// Operator calls from Python: what all calls of one form have in common, and a submitted call with its bytes.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "buffers.h"
#include "device.h"
#include "gathering.h"
#include "held_staging.h"
#include "served_device.h"
#include "value_check.h"

namespace aclgrad {

// The common part of all calls of one form: everything except the addresses of their bytes.
struct CallTemplate {
  OperatorCall call;                                 // without data
  std::vector<std::optional<ValueCheck>> checks;     // one for each input
  std::vector<std::optional<Gathering>> gatherings;  // of the inputs that are made row-major before they are checked
  std::vector<std::string> reply_prefixes;           // what stands before each output in a reply
  mutable std::atomic<bool> is_short{false};  // a call of this form was run, and the library said that it is short
};

// The values of an input break its check.
class InvalidInput : public std::runtime_error {
 public:
  InvalidInput(std::size_t input_index, const std::string& message) : std::runtime_error(message), input(input_index) {}
  const std::size_t input;
  // The work that the input asks for and the limit, if it is too much.
  std::optional<double> work;
  std::optional<double> limit;
};

using Contents = std::vector<pybind11::object>;

// A call with the Python objects whose memory it views. The device may keep it after the caller has gone.
struct HeldCall {
  OperatorCall call;
  std::shared_ptr<const CallTemplate> plan;
  std::vector<BufferView> buffers;
  std::vector<std::shared_ptr<HeldStaging>> stagings;
  std::vector<std::vector<std::byte>> copies;  // of inputs: row-major, and in the form that the device reads
  pybind11::object reply;
  std::shared_ptr<const TicketReturn> released;  // of a call, or of all calls of a group
};

// What a call may have and use beside its contents.
struct CallLimits {
  std::size_t workspace_bytes = SIZE_MAX;
  // Of the arena that its places are in.
  std::size_t arena_bytes = 0;
  // Inputs with a check whose values need none, because the step that made them on the device guarantees them.
  std::vector<std::size_t> guaranteed{};
};

// Throws ValueError for contents that do not fit the plan. Use it with the GIL held.
[[nodiscard]] std::shared_ptr<HeldCall> MakeHeldCall(ServedDevice& served, std::shared_ptr<const CallTemplate> plan,
                                                     const Contents& contents, const CallLimits& limits,
                                                     std::shared_ptr<const TicketReturn> released);

// Throws ValueError for a tensor that is closed, or that another device has. `what` names the tensor.
void ExpectOn(const ServedDevice& served, const StagedTensor& tensor, const std::string& what);

// Throws ValueError for a place outside the arena, or one that no kernel may have. `what` names the tensor.
void ExpectIn(std::size_t arena_bytes, const Place& place, const std::string& what);

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

// Keeps the held call alive.
[[nodiscard]] inline std::shared_ptr<const OperatorCall> CallOf(const std::shared_ptr<HeldCall>& held) {
  return {held, &held->call};
}

// Throws NotBegun if the call was cancelled or its deadline has passed.
void ThrowIfOver(const Cancellation& cancellation, Deadline deadline);

}  // namespace aclgrad
