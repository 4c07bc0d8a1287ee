#include <pybind11/stl.h>

#include <cstdint>
#include <exception>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "held_call.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// Runs many operators into the sections of one bytes object.
struct BatchTask {
  Device& device;
  std::vector<std::shared_ptr<HeldCall>> held;
  py::object reply;
  std::size_t stream_limit;
  Deadline deadline;
  std::vector<std::exception_ptr> errors{held.size()};

  void Run(const Cancellation& cancellation) {
    std::vector<std::shared_ptr<const OperatorCall>> calls;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < held.size(); ++i) {
      try {
        ThrowIfOver(cancellation, deadline);
        ApplyChecks(*held[i]);
        if (held[i]->plan->is_empty) {
          WriteZeros(*held[i]);
        } else {
          calls.push_back(CallOf(held[i]));
          indices.push_back(i);
        }
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
    std::vector<std::exception_ptr> found = device.ExecuteAll(calls, stream_limit, deadline, cancellation.is_cancelled);
    for (std::size_t i = 0; i < found.size(); ++i) errors[indices[i]] = std::move(found[i]);
  }

  [[nodiscard]] py::object Result() {
    py::list raised;
    for (const std::exception_ptr& each : errors) raised.append(each ? ToPython(each) : py::none());
    return py::make_tuple(std::move(reply), std::move(raised));
  }
};

std::shared_ptr<Cancellation> SubmitBatch(
    ServedDevice& served, py::object ticket,
    const std::vector<std::tuple<std::shared_ptr<CallTemplate>, Contents, std::string>>& calls, double deadline,
    const py::object& released_ticket, std::size_t stream_limit, const std::vector<std::size_t>& workspace_limits) {
  const std::shared_ptr<const TicketReturn> released = ReturnOf(served, released_ticket);
  std::vector<std::shared_ptr<HeldCall>> held;
  std::vector<ReplyBuffer::Section> sections;
  for (const auto& [plan, contents, prefix] : calls) {
    const std::size_t workspace_limit = workspace_limits.empty() ? SIZE_MAX : workspace_limits.at(held.size());
    held.push_back(MakeHeldCall(served, plan, contents, workspace_limit, released));
    sections.emplace_back(prefix, 0);
    for (const auto& [bytes, reply_prefix] : ReturnedOutputs(*held.back())) {
      sections.emplace_back(reply_prefix, bytes.size_bytes);
    }
  }
  const ReplyBuffer reply(sections);
  std::size_t section = 0;
  for (const std::shared_ptr<HeldCall>& each : held) {
    ++section;  // the call's own prefix
    for (const ReturnedOutput& output : ReturnedOutputs(*each)) output.bytes.address = reply.payload(section++);
    each->reply = reply.object();
  }
  BatchTask task{served.device, std::move(held), reply.object(), stream_limit, DeadlineOf(deadline)};
  return SubmitTask(served.calls, std::move(ticket), std::move(task));
}

}  // namespace

void BindBatches(DeviceClass& device) {
  device.def("submit_batch", &SubmitBatch, py::arg("ticket"), py::arg("calls"), py::arg("deadline"),
             py::arg("released_ticket") = py::none(), py::arg("stream_limit") = SIZE_MAX,
             py::arg("workspace_limits") = std::vector<std::size_t>{});
}

}  // namespace aclgrad
