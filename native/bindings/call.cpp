#include "call.h"

#include <pybind11/stl.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <variant>

#include "buffers.h"
#include "error.h"
#include "errors.h"
#include "staging.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

using Shape = std::vector<int64_t>;
using PlanInput = std::tuple<Shape, int, bool, std::optional<ValueCheck>>;
using Contents = std::vector<py::object>;

// A call with the Python objects whose memory it views. The device may hold on to it after the caller has gone.
struct HeldCall {
  OperatorCall call;
  std::shared_ptr<const CallPlan> plan;
  std::vector<BufferView> buffers;
  std::vector<std::shared_ptr<HeldStaging>> stagings;
  std::vector<std::vector<std::byte>> encoded;  // inputs in the form that the device reads
  py::object output;
};

// Has a call deleted by whoever drains the completions, who has the GIL. The device's threads never take it: they would
// wait for it in vain, or be ended, while the interpreter ends.
class CallDeletion final : public SubmittedWork {
 public:
  explicit CallDeletion(HeldCall* held) : SubmittedWork(py::object()), held_(held) {}
  void Run() override {}

 private:
  const std::unique_ptr<HeldCall> held_;
};

std::shared_ptr<HeldCall> MakeHeldCall(ServedDevice& served, std::shared_ptr<const CallPlan> plan,
                                       const Contents& contents) {
  // Without the GIL the device is at work or closes, and then it has its completions still.
  const auto delete_with_gil = [&completions = *served.completions](HeldCall* held) {
    // The check alone says yes to everybody once the interpreter has ended.
    if (PyGILState_GetThisThreadState() != nullptr && PyGILState_Check() != 0) {
      delete held;
    } else {
      completions.Add(std::make_unique<CallDeletion>(held));
    }
  };
  const std::shared_ptr<HeldCall> held(new HeldCall{}, delete_with_gil);
  held->call = plan->form;
  held->plan = std::move(plan);
  if (contents.size() != held->call.inputs.size()) {
    throw py::value_error("the operator has " + std::to_string(held->call.inputs.size()) + " inputs; " +
                          std::to_string(contents.size()) + " are given");
  }
  held->buffers.reserve(contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    InputView& view = held->call.inputs[i];
    if (contents[i].is_none()) continue;
    if (py::isinstance<StagedTensor>(contents[i])) {
      const auto& tensor = contents[i].cast<const StagedTensor&>();
      if (!tensor.held) throw py::value_error("an input's tensor is closed");
      held->stagings.push_back(tensor.held);
      if (tensor.is_on_host()) {
        view.values = HostBytes{tensor.address(), tensor.size_bytes};
      } else {
        view.values = DeviceBytes{tensor.address(), tensor.size_bytes};
      }
    } else {
      const BufferView& buffer = held->buffers.emplace_back(contents[i], /*writable=*/false);
      view.values = HostBytes{buffer.data(), buffer.size_bytes()};
    }
  }
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (!held->plan->checks[i] || std::holds_alternative<HostBytes>(held->call.inputs[i].values)) continue;
    // An input of an empty call may have no values.
    if (held->plan->is_empty && contents[i].is_none()) continue;
    throw py::value_error("input " + std::to_string(i) + " is checked, so its values have to be in host memory");
  }
  return held;
}

// Checks the values that have a check, and puts encoded ones in their place.
void ApplyChecks(HeldCall& held) {
  for (std::size_t i = 0; i < held.plan->checks.size(); ++i) {
    const std::optional<ValueCheck>& check = held.plan->checks[i];
    auto* const given = std::get_if<HostBytes>(&held.call.inputs[i].values);
    if (!check || given == nullptr) continue;
    try {
      if (auto encoded = Apply(*check, given->data, given->size_bytes)) {
        const std::vector<std::byte>& kept = held.encoded.emplace_back(std::move(*encoded));
        *given = {kept.data(), kept.size()};
      }
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

std::shared_ptr<const OperatorCall> CallOf(const std::shared_ptr<HeldCall>& held) { return {held, &held->call}; }

// Tells work that nobody waits for it any more.
struct Cancellation {
  std::atomic<bool> is_cancelled{false};
};

// Throws for a call that must not begin.
void ThrowIfOver(const Cancellation& cancellation, Deadline deadline) {
  const char* why = nullptr;
  if (cancellation.is_cancelled) why = "its client has gone";
  if (Deadline::clock::now() >= deadline) why = "its deadline passed before it began";
  if (why != nullptr) throw AclError(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "the call", why);
}

// Runs an operator into a bytes object, the reply, or into a staged tensor.
class CallWork final : public SubmittedWork {
 public:
  CallWork(py::object given_ticket, Device& device, std::shared_ptr<HeldCall> held, Deadline deadline)
      : SubmittedWork(std::move(given_ticket)), device_(device), held_(std::move(held)), deadline_(deadline) {}

  void Run() override {
    ThrowIfOver(*cancellation, deadline_);
    ApplyChecks(*held_);
    if (!held_->plan->is_empty) return device_.Execute(CallOf(held_), deadline_);
    const OutputView& output = held_->call.output;
    if (!output.is_on_device) {
      std::memset(output.address, 0, output.size_bytes);
    } else {
      zeros->held->staging().WriteZeros(zeros->number, deadline_);
      zeros->held->staging().Finish(deadline_);
    }
  }

  [[nodiscard]] py::object Result() override { return std::move(held_->output); }

  const std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  std::optional<StagedTensor> zeros;  // where the output of an empty call goes, if not into the reply

 private:
  Device& device_;
  std::shared_ptr<HeldCall> held_;
  const Deadline deadline_;
};

std::shared_ptr<Cancellation> Submit(ServedDevice& served, py::object ticket, std::shared_ptr<const CallPlan> plan,
                                     const Contents& contents, double deadline) {
  const std::shared_ptr<HeldCall> held = MakeHeldCall(served, std::move(plan), contents);
  const std::string& prefix = held->plan->reply_prefix;
  OutputView& output = held->call.output;
  const ReplyBuffer reply({{prefix, output.size_bytes}});
  output.address = reply.payload(0);
  held->output = reply.object();
  auto work = std::make_unique<CallWork>(std::move(ticket), served.device, held, DeadlineOf(deadline));
  auto cancellation = work->cancellation;
  served.calls.Submit(std::move(work));
  return cancellation;
}

std::shared_ptr<Cancellation> SubmitInto(ServedDevice& served, py::object ticket, std::shared_ptr<const CallPlan> plan,
                                         const Contents& contents, const StagedTensor& target, double deadline) {
  const std::shared_ptr<HeldCall> held = MakeHeldCall(served, std::move(plan), contents);
  OutputView& output = held->call.output;
  if (!target.held) throw py::value_error("the output's tensor is closed");
  held->stagings.push_back(target.held);
  held->output = py::none();
  output.address = target.address();
  output.is_on_device = !target.is_on_host();
  output.size_bytes = target.size_bytes;
  auto work = std::make_unique<CallWork>(std::move(ticket), served.device, held, DeadlineOf(deadline));
  work->zeros = target;
  auto cancellation = work->cancellation;
  served.calls.Submit(std::move(work));
  return cancellation;
}

// Runs many operators into the sections of one bytes object.
class BatchWork final : public SubmittedWork {
 public:
  BatchWork(py::object given_ticket, Device& device, std::vector<std::shared_ptr<HeldCall>> held, py::object reply,
            Deadline deadline)
      : SubmittedWork(std::move(given_ticket)),
        device_(device),
        held_(std::move(held)),
        errors_(held_.size()),
        reply_(std::move(reply)),
        deadline_(deadline) {}

  void Run() override {
    std::vector<std::shared_ptr<const OperatorCall>> calls;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      try {
        ThrowIfOver(*cancellation, deadline_);
        ApplyChecks(*held_[i]);
        const OutputView& output = held_[i]->call.output;
        if (held_[i]->plan->is_empty) {
          std::memset(output.address, 0, output.size_bytes);
        } else {
          calls.push_back(CallOf(held_[i]));
          indices.push_back(i);
        }
      } catch (...) {
        errors_[i] = std::current_exception();
      }
    }
    std::vector<std::exception_ptr> found = device_.ExecuteAll(calls, deadline_, cancellation->is_cancelled);
    for (std::size_t i = 0; i < found.size(); ++i) errors_[indices[i]] = std::move(found[i]);
  }

  [[nodiscard]] py::object Result() override {
    py::list errors;
    for (const std::exception_ptr& each : errors_) errors.append(each ? ToPython(each) : py::none());
    return py::make_tuple(std::move(reply_), std::move(errors));
  }

  const std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();

 private:
  Device& device_;
  std::vector<std::shared_ptr<HeldCall>> held_;
  std::vector<std::exception_ptr> errors_;
  py::object reply_;
  const Deadline deadline_;
};

std::shared_ptr<Cancellation> SubmitBatch(
    ServedDevice& served, py::object ticket,
    const std::vector<std::tuple<std::shared_ptr<CallPlan>, Contents, py::bytes>>& calls, double deadline) {
  std::vector<std::shared_ptr<HeldCall>> held;
  std::vector<ReplyBuffer::Section> sections;
  for (const auto& [plan, contents, prefix] : calls) {
    held.push_back(MakeHeldCall(served, plan, contents));
    sections.emplace_back(std::string_view(prefix), held.back()->call.output.size_bytes);
  }
  const ReplyBuffer reply(sections);
  for (std::size_t i = 0; i < held.size(); ++i) {
    held[i]->call.output.address = reply.payload(i);
    held[i]->output = reply.object();
  }
  auto work = std::make_unique<BatchWork>(std::move(ticket), served.device, std::move(held), reply.object(),
                                          DeadlineOf(deadline));
  auto cancellation = work->cancellation;
  served.calls.Submit(std::move(work));
  return cancellation;
}

std::shared_ptr<CallPlan> MakePlan(std::string symbol, const std::vector<PlanInput>& inputs,
                                   std::vector<Attribute> attributes, Shape shape, int dtype, std::size_t output_bytes,
                                   const py::bytes& reply_prefix, bool is_empty) {
  auto plan = std::make_shared<CallPlan>();
  plan->form.symbol = std::move(symbol);
  for (const auto& [input_shape, input_dtype, is_prefix, check] : inputs) {
    plan->form.inputs.push_back({input_shape, static_cast<aclDataType>(input_dtype), is_prefix});
    plan->checks.push_back(check);
  }
  plan->form.attributes = std::move(attributes);
  plan->form.output = {std::move(shape), static_cast<aclDataType>(dtype), nullptr, output_bytes};
  plan->reply_prefix = std::string(reply_prefix);
  plan->is_empty = is_empty;
  return plan;
}

}  // namespace

void BindCalls(py::module_& module, DeviceClass& device) {
  py::class_<CallPlan, std::shared_ptr<CallPlan>>(module, "CallPlan")
      .def(py::init(&MakePlan), py::arg("symbol"), py::arg("inputs"), py::arg("attributes"), py::arg("shape"),
           py::arg("dtype"), py::arg("output_bytes"), py::arg("reply_prefix") = py::bytes(),
           py::arg("is_empty") = false);
  py::class_<Cancellation, std::shared_ptr<Cancellation>>(module, "Cancellation").def("cancel", [](Cancellation& self) {
    self.is_cancelled = true;
  });
  device.def("submit", &Submit, py::arg("ticket"), py::arg("plan"), py::arg("contents"), py::arg("deadline"))
      .def("submit_into", &SubmitInto, py::arg("ticket"), py::arg("plan"), py::arg("contents"), py::arg("target"),
           py::arg("deadline"))
      .def("submit_batch", &SubmitBatch, py::arg("ticket"), py::arg("calls"), py::arg("deadline"));
}

}  // namespace aclgrad
