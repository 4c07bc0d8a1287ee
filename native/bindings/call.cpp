#include "call.h"

#include <pybind11/stl.h>

#include <cstring>

#include "held_call.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// Runs an operator and writes its output to a bytes object, the reply, or to a staged tensor.
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
    const OutputView& output = held_->call.output;
    if (!output.is_on_device) {
      std::memset(output.address, 0, output.size_bytes);
    } else {
      zeros->held->staging().WriteZeros(zeros->number, deadline_);
    }
  }

  [[nodiscard]] py::object Result() override { return std::move(held_->output); }

  const std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  std::optional<StagedTensor> zeros;  // the target of an empty call, if it is not the reply

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
  const std::string& prefix = held->plan->reply_prefix;
  OutputView& output = held->call.output;
  const ReplyBuffer reply({{prefix, output.size_bytes}});
  output.address = reply.payload(0);
  held->output = reply.object();
  auto work = std::make_unique<CallWork>(std::move(ticket), served.device, held, DeadlineOf(deadline),
                                         DeadlineOf(wait_until.value_or(deadline)));
  auto cancellation = work->cancellation;
  served.calls.Submit(std::move(work));
  return cancellation;
}

std::shared_ptr<Cancellation> SubmitInto(ServedDevice& served, py::object ticket, std::shared_ptr<const CallPlan> plan,
                                         const Contents& contents, const StagedTensor& target, double deadline,
                                         std::optional<double> wait_until, const py::object& released_ticket) {
  const std::shared_ptr<HeldCall> held =
      MakeHeldCall(served, std::move(plan), contents, ReturnOf(served, released_ticket));
  OutputView& output = held->call.output;
  ExpectOn(served, target, "the output");
  held->stagings.push_back(target.held);
  held->output = py::none();
  output.address = target.address();
  output.is_on_device = !target.is_on_host();
  output.size_bytes = target.size_bytes;
  auto work = std::make_unique<CallWork>(std::move(ticket), served.device, held, DeadlineOf(deadline),
                                         DeadlineOf(wait_until.value_or(deadline)));
  work->zeros = target;
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
           py::arg("target"), py::arg("deadline"), py::arg("wait_until") = std::nullopt,
           py::arg("released_ticket") = py::none());
}

}  // namespace aclgrad
