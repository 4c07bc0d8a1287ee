#include <pybind11/stl.h>

#include <cstdint>

#include "bindings.h"
#include "held_call.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// Runs an operator and writes its outputs to a bytes object, the reply.
struct CallTask {
  Device& device;
  std::shared_ptr<HeldCall> held;
  Deadline deadline;
  Deadline wait_until;

  void Run(const Cancellation& cancellation) {
    ThrowIfOver(cancellation, deadline);
    ApplyChecks(*held);
    if (device.Execute(CallOf(held), deadline, wait_until)) held->plan->is_short = true;
  }

  [[nodiscard]] py::object Result() { return std::move(held->reply); }
};

// Makes the bytes object that the outputs are written to.
void MakeReply(HeldCall& held) {
  const std::vector<ReturnedOutput> outputs = ReturnedOutputs(held);
  std::vector<ReplyBuffer::Section> sections;
  for (const auto& [bytes, prefix] : outputs) sections.emplace_back(prefix, bytes.size_bytes);
  const ReplyBuffer reply(sections);
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].bytes.host = reply.payload(i);
  held.reply = reply.object();
}

std::shared_ptr<Cancellation> Submit(ServedDevice& served, py::object ticket, std::shared_ptr<const CallTemplate> plan,
                                     const Contents& contents, double deadline, std::optional<double> wait_until,
                                     const py::object& released_ticket, std::optional<std::size_t> thread,
                                     std::size_t workspace_limit) {
  const std::shared_ptr<HeldCall> held =
      MakeHeldCall(served, std::move(plan), contents, {workspace_limit}, ReturnOf(served, released_ticket));
  MakeReply(*held);
  CallTask task{served.device, held, DeadlineOf(deadline), DeadlineOf(wait_until.value_or(deadline))};
  return SubmitTask(served.calls, std::move(ticket), std::move(task), thread);
}

// Keeps the GIL: another thread would take longer to get and give it back than the call takes.
py::object RunShort(ServedDevice& served, std::shared_ptr<const CallTemplate> plan, const Contents& contents,
                    double deadline, const py::object& released_ticket, std::size_t workspace_limit) {
  const auto released = std::make_shared<TicketReturn>(served.completions, released_ticket);
  const std::shared_ptr<HeldCall> held = MakeHeldCall(served, std::move(plan), contents, {workspace_limit}, released);
  MakeReply(*held);
  if (Deadline::clock::now() >= DeadlineOf(deadline)) throw NotBegun("the call", "its deadline passed before it began");
  ApplyChecks(*held);
  const bool is_done = served.device.ExecuteShort(CallOf(held), DeadlineOf(deadline));
  released->Forget();
  return is_done ? std::move(held->reply) : py::none();
}

}  // namespace

void BindCalls(py::module_& module, DeviceClass& device) {
  py::class_<Cancellation, std::shared_ptr<Cancellation>>(module, "Cancellation").def("cancel", [](Cancellation& self) {
    self.is_cancelled = true;
  });
  device
      .def("submit", &Submit, py::arg("ticket"), py::arg("plan").none(false), py::arg("contents"), py::arg("deadline"),
           py::arg("wait_until") = std::nullopt, py::arg("released_ticket") = py::none(),
           py::arg("thread") = std::nullopt, py::arg("workspace_limit") = SIZE_MAX)
      .def("run_short", &RunShort, py::arg("plan").none(false), py::arg("contents"), py::arg("deadline"),
           py::arg("released_ticket"), py::arg("workspace_limit") = SIZE_MAX);
}

}  // namespace aclgrad
