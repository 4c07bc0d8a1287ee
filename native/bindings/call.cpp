#include "call.h"

#include <pybind11/stl.h>

#include "held_call.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// Runs an operator and writes its outputs to a bytes object, the reply, or to staged tensors.
class CallWork final : public SubmittedWork {
 public:
  CallWork(py::object given_ticket, Device& device, std::shared_ptr<HeldCall> held, Deadline deadline,
           Deadline wait_until)
      : SubmittedWork(std::move(given_ticket)),
        device_(device),
        held_(std::move(held)),
        deadline_(deadline),
        wait_until_(wait_until) {}

  void Run() override {
    ThrowIfOver(*cancellation, deadline_);
    ApplyChecks(*held_);
    if (!held_->plan->is_empty) return device_.Execute(CallOf(held_), deadline_, wait_until_);
    WriteZeros(*held_);
    for (const StagedTensor& target : targets) {
      if (!target.is_on_host()) target.held->staging().WriteZeros(target.number, deadline_);
    }
  }

  [[nodiscard]] py::object Result() override { return std::move(held_->reply); }

  const std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  std::vector<StagedTensor> targets;  // of the outputs, if it is not the reply

 private:
  Device& device_;
  std::shared_ptr<HeldCall> held_;
  const Deadline deadline_;
  const Deadline wait_until_;
};

std::shared_ptr<Cancellation> Submit(ServedDevice& served, py::object ticket, std::shared_ptr<const CallPlan> plan,
                                     const Contents& contents, double deadline, std::optional<double> wait_until,
                                     const py::object& released_ticket) {
  const std::shared_ptr<HeldCall> held =
      MakeHeldCall(served, std::move(plan), contents, ReturnOf(served, released_ticket));
  const std::vector<ReturnedOutput> outputs = ReturnedOutputs(*held);
  std::vector<ReplyBuffer::Section> sections;
  for (const auto& [view, prefix] : outputs) sections.emplace_back(prefix, view.size_bytes);
  const ReplyBuffer reply(sections);
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].view.address = reply.payload(i);
  held->reply = reply.object();
  auto work = std::make_unique<CallWork>(std::move(ticket), served.device, held, DeadlineOf(deadline),
                                         DeadlineOf(wait_until.value_or(deadline)));
  auto cancellation = work->cancellation;
  served.calls.Submit(std::move(work));
  return cancellation;
}

std::shared_ptr<Cancellation> SubmitInto(ServedDevice& served, py::object ticket, std::shared_ptr<const CallPlan> plan,
                                         const Contents& contents, const std::vector<StagedTensor>& targets,
                                         double deadline, std::optional<double> wait_until,
                                         const py::object& released_ticket) {
  const std::shared_ptr<HeldCall> held =
      MakeHeldCall(served, std::move(plan), contents, ReturnOf(served, released_ticket));
  const std::vector<ReturnedOutput> outputs = ReturnedOutputs(*held);
  if (targets.size() != outputs.size()) {
    throw py::value_error("the call returns " + std::to_string(outputs.size()) + " outputs; " +
                          std::to_string(targets.size()) + " targets are given");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    ExpectOn(served, targets[i], "output " + std::to_string(i));
    held->stagings.push_back(targets[i].held);
    OutputView& view = outputs[i].view;
    view.address = targets[i].address();
    view.is_on_device = !targets[i].is_on_host();
    view.size_bytes = targets[i].size_bytes;
  }
  held->reply = py::none();
  auto work = std::make_unique<CallWork>(std::move(ticket), served.device, held, DeadlineOf(deadline),
                                         DeadlineOf(wait_until.value_or(deadline)));
  work->targets = targets;
  auto cancellation = work->cancellation;
  served.calls.Submit(std::move(work));
  return cancellation;
}

}  // namespace

void BindCalls(py::module_& module, DeviceClass& device) {
  py::class_<Cancellation, std::shared_ptr<Cancellation>>(module, "Cancellation").def("cancel", [](Cancellation& self) {
    self.is_cancelled = true;
  });
  device
      .def("submit", &Submit, py::arg("ticket"), py::arg("plan").none(false), py::arg("contents"), py::arg("deadline"),
           py::arg("wait_until") = std::nullopt, py::arg("released_ticket") = py::none())
      .def("submit_into", &SubmitInto, py::arg("ticket"), py::arg("plan").none(false), py::arg("contents"),
           py::arg("targets"), py::arg("deadline"), py::arg("wait_until") = std::nullopt,
           py::arg("released_ticket") = py::none());
}

}  // namespace aclgrad
