#include "held_call.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "error.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// Leaves the deletion of a call to the thread that drains the completions, which has the GIL. The device's threads
// never take the GIL: while the interpreter shuts down, they would hang or be killed.
class CallDeletion final : public SubmittedWork {
 public:
  explicit CallDeletion(HeldCall* held) : SubmittedWork(py::object()), held_(held) {}

 private:
  const std::unique_ptr<HeldCall> held_;
};

// Where the bytes of an input are, which the held call keeps there.
InputBytes BytesOf(const ServedDevice& served, HeldCall& held, const py::object& content, std::size_t arena_bytes,
                   std::size_t input) {
  // First, because most contents are buffers, and it takes the least time to tell.
  if (PyObject_CheckBuffer(content.ptr()) != 0) {
    const BufferView& buffer = held.buffers.emplace_back(content, /*writable=*/false);
    return HostBytes{buffer.data(), buffer.size_bytes()};
  }
  if (py::isinstance<Place>(content)) {
    const auto place = content.cast<Place>();
    ExpectIn(arena_bytes, place, "input " + std::to_string(input));
    return place;
  }
  if (!py::isinstance<StagedTensor>(content)) {
    throw py::type_error("input " + std::to_string(input) + " is neither bytes nor a place nor a staged tensor");
  }
  const auto& tensor = content.cast<const StagedTensor&>();
  ExpectOn(served, tensor, "input " + std::to_string(input));
  held.stagings.push_back(tensor.held);
  if (tensor.is_on_host()) return HostBytes{tensor.address(), tensor.size_bytes};
  return DeviceBytes{tensor.address(), tensor.size_bytes};
}

bool IsOnDevice(const InputBytes& input) {
  return std::holds_alternative<DeviceBytes>(input) || std::holds_alternative<Place>(input);
}

void ExpectCheckable(const HeldCall& held, const Contents& contents, const std::vector<std::size_t>& guaranteed) {
  for (const std::size_t input : guaranteed) {
    if (input < contents.size() && IsOnDevice(held.call.inputs[input])) continue;
    throw py::value_error("input " + std::to_string(input) +
                          " is guaranteed by the step that made it, so its values have to be on the device");
  }
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const bool is_checked = held.plan->checks[i] || held.plan->gatherings[i];
    if (!is_checked || std::holds_alternative<HostBytes>(held.call.inputs[i])) continue;
    // Inputs of an empty call need no values.
    if (held.call.is_empty && contents[i].is_none()) continue;
    if (std::find(guaranteed.begin(), guaranteed.end(), i) != guaranteed.end()) continue;
    throw py::value_error("input " + std::to_string(i) + " is checked, so its values have to be in host memory");
  }
}

}  // namespace

std::shared_ptr<HeldCall> MakeHeldCall(ServedDevice& served, std::shared_ptr<const CallTemplate> plan,
                                       const Contents& contents, const CallLimits& limits,
                                       std::shared_ptr<const TicketReturn> released) {
  // A thread without the GIL is a device thread, and the completions outlive those.
  const auto delete_with_gil = [&completions = *served.completions](HeldCall* held) {
    // Once the interpreter has ended, PyGILState_Check alone returns true for every thread.
    if (PyGILState_GetThisThreadState() != nullptr && PyGILState_Check() != 0) {
      delete held;
    } else {
      completions.Add(std::make_unique<CallDeletion>(held));
    }
  };
  const std::shared_ptr<HeldCall> held(new HeldCall{}, delete_with_gil);
  held->released = std::move(released);
  if (plan == nullptr) throw py::type_error("a call has no plan");
  held->call = plan->call;
  held->call.workspace_limit = limits.workspace_bytes;
  held->plan = std::move(plan);
  if (contents.size() != held->call.inputs.size()) {
    throw py::value_error("the operator has " + std::to_string(held->call.inputs.size()) + " inputs; " +
                          std::to_string(contents.size()) + " are given");
  }
  held->buffers.reserve(contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (!contents[i].is_none()) held->call.inputs[i] = BytesOf(served, *held, contents[i], limits.arena_bytes, i);
  }
  ExpectCheckable(*held, contents, limits.guaranteed);
  return held;
}

void ExpectOn(const ServedDevice& served, const StagedTensor& tensor, const std::string& what) {
  if (!tensor.held) throw py::value_error(what + ": the tensor is closed");
  if (&tensor.held->device() == &served) return;
  throw py::value_error(what + " was staged on device " + std::to_string(tensor.held->device().device.index()) +
                        " and the call runs on device " + std::to_string(served.device.index()) +
                        "; stage it with the device that runs the call");
}

void ExpectIn(std::size_t arena_bytes, const Place& place, const std::string& what) {
  if (place.offset > arena_bytes || place.size_bytes > arena_bytes - place.offset) {
    throw py::value_error(what + " has " + std::to_string(place.size_bytes) + " bytes at " +
                          std::to_string(place.offset) + ", outside an arena of " + std::to_string(arena_bytes) +
                          " bytes");
  }
  if (place.offset % kCopyAlignment == 0) return;
  throw py::value_error(what + " is at " + std::to_string(place.offset) + ", which is no multiple of " +
                        std::to_string(kCopyAlignment));
}

std::shared_ptr<const TicketReturn> ReturnOf(const ServedDevice& served, const py::object& ticket) {
  return ticket.is_none() ? nullptr : std::make_shared<const TicketReturn>(served.completions, ticket);
}

void ApplyChecks(HeldCall& held) {
  const auto replace = [&held](HostBytes& input, std::vector<std::byte> copy) {
    const std::vector<std::byte>& kept = held.copies.emplace_back(std::move(copy));
    input = {kept.data(), kept.size()};
  };
  for (std::size_t i = 0; i < held.plan->checks.size(); ++i) {
    auto* const given = std::get_if<HostBytes>(&held.call.inputs[i]);
    if (given == nullptr) continue;
    if (const auto& gathering = held.plan->gatherings[i]) {
      replace(*given, Gather(*gathering, given->data, given->size_bytes));
    }
    const std::optional<ValueCheck>& check = held.plan->checks[i];
    if (!check) continue;
    try {
      if (auto encoded = Apply(*check, given->data, given->size_bytes)) replace(*given, std::move(*encoded));
    } catch (const TooMuchWork& error) {
      InvalidInput invalid(i, error.what());
      invalid.work = error.work;
      invalid.limit = error.limit;
      throw invalid;
    } catch (const InvalidValue& error) {
      throw InvalidInput(i, error.what());
    }
  }
}

std::vector<ReturnedOutput> ReturnedOutputs(HeldCall& held) {
  std::vector<ReturnedOutput> returned;
  for (std::size_t i = 0; i < held.call.outputs.size(); ++i) {
    if (!held.call.form->outputs[i].is_returned()) continue;
    returned.push_back({held.call.outputs[i], held.plan->reply_prefixes[i]});
  }
  return returned;
}

void ThrowIfOver(const Cancellation& cancellation, Deadline deadline) {
  const char* why = nullptr;
  if (cancellation.is_cancelled) why = "its client has gone";
  if (Deadline::clock::now() >= deadline) why = "its deadline passed before it began";
  if (why != nullptr) throw NotBegun("the call", why);
}

}  // namespace aclgrad
