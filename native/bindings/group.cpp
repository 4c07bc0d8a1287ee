#include "group.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bindings.h"
#include "held_call.h"
#include "staged_copies.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

using Positions = std::vector<std::size_t>;

// For each wanted output its target, and whether it is in the reply; None if all are in the reply alone.
using Sinks = std::optional<std::vector<std::pair<py::object, bool>>>;
// The last two are positions, which most steps have none of.
using Step = std::tuple<std::shared_ptr<CallTemplate>, Contents, std::string, Sinks, py::sequence, py::sequence>;
// The steps of a lane, the bytes of its arena, and of the workspace that each may have.
using GivenLane = std::tuple<Positions, std::size_t, std::size_t>;

// Runs the steps of a group, and writes outputs to the sections of one bytes object and to targets. Also makes the last
// copies to staged tensors that the steps read, and the first ones of those that they write, so that a thread is woken
// once for all of them.
struct GroupTask {
  Device& device;
  std::vector<std::shared_ptr<HeldCall>> held;
  Group group;
  py::object reply;
  std::size_t stream_limit;
  Deadline deadline;
  Deadline wait_until;
  StagedWrites writes;
  StagedReads reads;
  bool is_read = false;

  void Run(const Cancellation& cancellation) {
    writes.Run(cancellation, deadline);
    for (std::size_t i = 0; i < held.size(); ++i) {
      // A step whose input failed ends for that reason, whatever else is wrong with it.
      const auto has_failed = [this](std::size_t need) { return group.steps[need].error != nullptr; };
      const Positions& needs = group.steps[i].needs;
      if (std::any_of(needs.begin(), needs.end(), has_failed)) continue;
      try {
        ThrowIfOver(cancellation, deadline);
        ApplyChecks(*held[i]);
      } catch (...) {
        group.steps[i].error = std::current_exception();
      }
    }
    device.ExecuteGroup(group, stream_limit, deadline, wait_until, cancellation.is_cancelled);
    const bool has_failed = std::any_of(group.steps.begin(), group.steps.end(),
                                        [](const GroupStep& step) { return step.error != nullptr; });
    if (has_failed) return;
    reads.Run(cancellation, deadline);
    is_read = true;
  }

  [[nodiscard]] py::object Result() {
    py::list errors;
    for (const GroupStep& step : group.steps) errors.append(step.error ? ToPython(step.error) : py::none());
    return py::make_tuple(std::move(reply), std::move(errors), is_read ? reads.Messages() : py::list());
  }
};

// Where a target is, which the held call keeps there.
void SetTarget(const ServedDevice& served, HeldCall& held, OutputBytes& output, const py::object& target,
               std::size_t arena_bytes, const std::string& what) {
  if (py::isinstance<Place>(target)) {
    const auto place = target.cast<Place>();
    ExpectIn(arena_bytes, place, what);
    output.size_bytes = place.size_bytes;
    output.target = place;
    return;
  }
  if (!py::isinstance<StagedTensor>(target)) throw py::type_error(what + " has a target of an unknown kind");
  const auto& tensor = target.cast<const StagedTensor&>();
  ExpectOn(served, tensor, what);
  held.stagings.push_back(tensor.held);
  output.size_bytes = tensor.size_bytes;
  if (tensor.is_on_host()) {
    output.host = tensor.address();
  } else {
    output.target = DeviceBytes{tensor.address(), tensor.size_bytes};
  }
}

bool Overlap(std::uintptr_t first, std::size_t first_bytes, std::uintptr_t second, std::size_t second_bytes) {
  return first < second + second_bytes && second < first + first_bytes;
}

std::uintptr_t AddressOf(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

// Whether an output lies over this tensor of its step.
template <typename Tensor>
bool LiesOver(const OutputBytes& output, const Tensor& tensor) {
  const auto* const place = std::get_if<Place>(&output.target);
  const auto* const other_place = std::get_if<Place>(&tensor);
  if (place != nullptr && other_place != nullptr) {
    return Overlap(place->offset, place->size_bytes, other_place->offset, other_place->size_bytes);
  }
  const auto* const device = std::get_if<DeviceBytes>(&output.target);
  const auto* const other_device = std::get_if<DeviceBytes>(&tensor);
  if (device == nullptr || other_device == nullptr) return false;
  return Overlap(AddressOf(device->address), device->size_bytes, AddressOf(other_device->address),
                 other_device->size_bytes);
}

// An output is filled before the inputs are read.
void ExpectApart(const OperatorCall& call) {
  if (HasJoinedInputs(call)) return;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const OutputBytes& output = call.outputs[i];
    if (std::holds_alternative<std::monostate>(output.target)) continue;
    const auto refuse = [i](const char* kind, std::size_t number) {
      throw py::value_error("output " + std::to_string(i) + " lies over " + kind + std::to_string(number));
    };
    for (std::size_t k = 0; k < call.inputs.size(); ++k) {
      if (LiesOver(output, call.inputs[k])) refuse("input ", k);
    }
    for (std::size_t k = i + 1; k < call.outputs.size(); ++k) {
      if (LiesOver(output, call.outputs[k].target)) refuse("output ", k);
    }
  }
}

// Sets the targets of a step's outputs, and returns those outputs that are in the reply.
std::vector<ReturnedOutput> Sink(const ServedDevice& served, HeldCall& held, const Sinks& sinks,
                                 std::size_t arena_bytes) {
  std::vector<ReturnedOutput> outputs = ReturnedOutputs(held);
  if (!sinks) return outputs;
  if (sinks->size() != outputs.size()) {
    throw py::value_error("the step has " + std::to_string(outputs.size()) + " wanted outputs; " +
                          std::to_string(sinks->size()) + " sinks are given");
  }
  std::vector<ReturnedOutput> replied;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [target, in_reply] = (*sinks)[i];
    const std::string what = "output " + std::to_string(i);
    if (target.is_none() && !in_reply) throw py::value_error(what + " goes nowhere");
    if (!target.is_none()) SetTarget(served, held, outputs[i].bytes, target, arena_bytes, what);
    if (in_reply) replied.push_back(outputs[i]);
  }
  ExpectApart(held.call);
  return replied;
}

Positions PositionsOf(const py::sequence& given) { return given.empty() ? Positions() : given.cast<Positions>(); }

// The lane of each step.
std::vector<std::size_t> LanesOf(std::size_t step_count, const std::vector<GivenLane>& lanes) {
  constexpr std::size_t kNone = SIZE_MAX;
  std::vector<std::size_t> found(step_count, kNone);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    std::size_t next = 0;
    for (const std::size_t position : std::get<Positions>(lanes[lane])) {
      if (position >= step_count || position < next || found[position] != kNone) {
        throw py::value_error("lane " + std::to_string(lane) + " has step " + std::to_string(position) +
                              ", which is not there, out of order, or in a lane already");
      }
      found[position] = lane;
      next = position + 1;
    }
    if (next == 0) throw py::value_error("lane " + std::to_string(lane) + " has no steps");
  }
  const auto left = std::find(found.begin(), found.end(), kNone);
  if (left == found.end()) return found;
  throw py::value_error("step " + std::to_string(left - found.begin()) + " is in no lane");
}

void ExpectBefore(std::size_t step, const Positions& needs, const std::vector<std::size_t>& lanes) {
  for (const std::size_t need : needs) {
    if (need < step && lanes[need] == lanes[step]) continue;
    throw py::value_error("step " + std::to_string(step) + " needs step " + std::to_string(need) +
                          ", which is not before it in its lane");
  }
}

std::shared_ptr<Cancellation> SubmitGroup(ServedDevice& served, py::object ticket, const std::vector<Step>& steps,
                                          std::vector<GivenLane> lanes, double deadline,
                                          std::optional<double> wait_until, const py::object& released_ticket,
                                          std::size_t stream_limit, const std::vector<Write>& writes,
                                          const std::vector<Read>& reads) {
  const std::shared_ptr<const TicketReturn> released = ReturnOf(served, released_ticket);
  const std::vector<std::size_t> lane_of = LanesOf(steps.size(), lanes);
  std::vector<std::shared_ptr<HeldCall>> held;
  held.reserve(steps.size());
  Group group;
  group.steps.reserve(steps.size());
  group.lanes.reserve(lanes.size());
  for (auto& [positions, arena_bytes, workspace_limit] : lanes) {
    group.lanes.push_back({std::move(positions), arena_bytes});
  }
  std::vector<ReplyBuffer::Section> sections;
  // In the order of their sections; null for a step's own prefix.
  std::vector<OutputBytes*> replied;
  sections.reserve(2 * steps.size());
  replied.reserve(2 * steps.size());
  for (const auto& [plan, contents, prefix, sinks, given_needs, guaranteed] : steps) {
    const std::size_t step = held.size();
    Positions needs = PositionsOf(given_needs);
    const auto& [moved, arena_bytes, workspace_limit] = lanes[lane_of[step]];
    ExpectBefore(step, needs, lane_of);
    HeldCall& each = *held.emplace_back(
        MakeHeldCall(served, plan, contents, {workspace_limit, arena_bytes, PositionsOf(guaranteed)}, released));
    group.steps.push_back({CallOf(held.back()), std::move(needs), nullptr});
    sections.emplace_back(prefix, 0);
    replied.push_back(nullptr);
    for (const auto& [bytes, reply_prefix] : Sink(served, each, sinks, arena_bytes)) {
      sections.emplace_back(reply_prefix, bytes.size_bytes);
      replied.push_back(&bytes);
    }
  }
  const ReplyBuffer reply(sections);
  for (std::size_t section = 0; section < replied.size(); ++section) {
    OutputBytes* const output = replied[section];
    if (output != nullptr) (output->host == nullptr ? output->host : output->host_copy) = reply.payload(section);
  }
  for (const std::shared_ptr<HeldCall>& each : held) each->reply = reply.object();
  GroupTask task{served.device,
                 std::move(held),
                 std::move(group),
                 reply.object(),
                 stream_limit,
                 DeadlineOf(deadline),
                 DeadlineOf(wait_until.value_or(deadline)),
                 StagedWrites(served, writes),
                 StagedReads(served, reads)};
  return SubmitTask(served.calls, std::move(ticket), std::move(task));
}

}  // namespace

void BindGroups(py::module_& module, DeviceClass& device) {
  py::class_<Place>(module, "Place")
      .def(py::init<std::size_t, std::size_t>(), py::arg("offset"), py::arg("size_bytes"))
      .def_readonly("offset", &Place::offset)
      .def_readonly("size_bytes", &Place::size_bytes);
  device.def("submit_group", &SubmitGroup, py::arg("ticket"), py::arg("steps"), py::arg("lanes"), py::arg("deadline"),
             py::kw_only(), py::arg("wait_until") = std::nullopt, py::arg("released_ticket") = py::none(),
             py::arg("streams") = SIZE_MAX, py::arg("writes") = std::vector<Write>{},
             py::arg("reads") = std::vector<Read>{});
}

}  // namespace aclgrad
