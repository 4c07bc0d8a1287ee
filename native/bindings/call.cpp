#include "call.h"

#include <pybind11/stl.h>

#include <cstdint>

#include "bindings.h"
#include "held_call.h"
#include "staged_copies.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// Runs an operator and writes its outputs to a bytes object, the reply, or to staged tensors: then it also makes the
// last copies to the inputs and the first ones of the outputs, so that a call wakes a thread once for all of them.
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
    if (writes) writes->Run(*cancellation, deadline_);
    ThrowIfOver(*cancellation, deadline_);
    ApplyChecks(*held_);
    if (held_->plan->is_empty) {
      WriteZeros(*held_);
      for (const StagedTensor& target : targets) {
        if (!target.is_on_host()) target.held->staging().WriteZeros(target.number, deadline_);
      }
    } else if (device_.Execute(CallOf(held_), deadline_, wait_until_)) {
      held_->plan->is_short = true;
    }
    if (reads) reads->Run(*cancellation, deadline_);
  }

  [[nodiscard]] py::object Result() override { return reads ? reads->Messages() : std::move(held_->reply); }

  const std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  std::vector<StagedTensor> targets;  // of the outputs, if it is not the reply
  std::optional<StagedWrites> writes;
  std::optional<StagedReads> reads;

 private:
  Device& device_;
  std::shared_ptr<HeldCall> held_;
  const Deadline deadline_;
  const Deadline wait_until_;
};

// Makes the bytes object that the outputs are written to.
void MakeReply(HeldCall& held) {
  const std::vector<ReturnedOutput> outputs = ReturnedOutputs(held);
  std::vector<ReplyBuffer::Section> sections;
  for (const auto& [bytes, prefix] : outputs) sections.emplace_back(prefix, bytes.size_bytes);
  const ReplyBuffer reply(sections);
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].bytes.address = reply.payload(i);
  held.reply = reply.object();
}

std::shared_ptr<Cancellation> Submit(ServedDevice& served, py::object ticket, std::shared_ptr<const CallTemplate> plan,
                                     const Contents& contents, double deadline, std::optional<double> wait_until,
                                     const py::object& released_ticket, std::optional<std::size_t> thread,
                                     std::size_t workspace_limit) {
  const std::shared_ptr<HeldCall> held =
      MakeHeldCall(served, std::move(plan), contents, workspace_limit, ReturnOf(served, released_ticket));
  MakeReply(*held);
  auto work = std::make_unique<CallWork>(std::move(ticket), served.device, held, DeadlineOf(deadline),
                                         DeadlineOf(wait_until.value_or(deadline)));
  auto cancellation = work->cancellation;
  served.calls.Submit(std::move(work), thread);
  return cancellation;
}

// Keeps the GIL: another thread would take longer to get and give it back than the call takes.
py::object RunShort(ServedDevice& served, std::shared_ptr<const CallTemplate> plan, const Contents& contents,
                    double deadline, const py::object& released_ticket, std::size_t workspace_limit) {
  const auto released = std::make_shared<TicketReturn>(served.completions, released_ticket);
  const std::shared_ptr<HeldCall> held = MakeHeldCall(served, std::move(plan), contents, workspace_limit, released);
  MakeReply(*held);
  if (Deadline::clock::now() >= DeadlineOf(deadline)) throw NotBegun("the call", "its deadline passed before it began");
  ApplyChecks(*held);
  const bool is_done = served.device.ExecuteShort(CallOf(held), DeadlineOf(deadline));
  released->Forget();
  return is_done ? std::move(held->reply) : py::none();
}

std::shared_ptr<Cancellation> SubmitInto(ServedDevice& served, py::object ticket,
                                         std::shared_ptr<const CallTemplate> plan, const Contents& contents,
                                         const std::vector<StagedTensor>& targets, double deadline,
                                         std::optional<double> wait_until, const py::object& released_ticket,
                                         const std::vector<Write>& writes, const std::vector<Read>& reads,
                                         std::size_t workspace_limit) {
  const std::shared_ptr<HeldCall> held =
      MakeHeldCall(served, std::move(plan), contents, workspace_limit, ReturnOf(served, released_ticket));
  const std::vector<ReturnedOutput> outputs = ReturnedOutputs(*held);
  if (targets.size() != outputs.size()) {
    throw py::value_error("the call returns " + std::to_string(outputs.size()) + " outputs; " +
                          std::to_string(targets.size()) + " targets are given");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    ExpectOn(served, targets[i], "output " + std::to_string(i));
    held->stagings.push_back(targets[i].held);
    outputs[i].bytes = {targets[i].address(), targets[i].size_bytes, !targets[i].is_on_host()};
  }
  auto work = std::make_unique<CallWork>(std::move(ticket), served.device, held, DeadlineOf(deadline),
                                         DeadlineOf(wait_until.value_or(deadline)));
  work->targets = targets;
  work->writes.emplace(served, writes);
  work->reads.emplace(served, reads);
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
           py::arg("wait_until") = std::nullopt, py::arg("released_ticket") = py::none(),
           py::arg("thread") = std::nullopt, py::arg("workspace_limit") = SIZE_MAX)
      .def("run_short", &RunShort, py::arg("plan").none(false), py::arg("contents"), py::arg("deadline"),
           py::arg("released_ticket"), py::arg("workspace_limit") = SIZE_MAX)
      .def("submit_into", &SubmitInto, py::arg("ticket"), py::arg("plan").none(false), py::arg("contents"),
           py::arg("targets"), py::arg("deadline"), py::arg("wait_until") = std::nullopt,
           py::arg("released_ticket") = py::none(), py::arg("writes") = std::vector<Write>{},
           py::arg("reads") = std::vector<Read>{}, py::arg("workspace_limit") = SIZE_MAX);
}

}  // namespace aclgrad
