#include <pybind11/stl.h>

#include <cstdint>
#include <exception>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "held_call.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// Runs many operators into the sections of one bytes object.
class BatchWork final : public SubmittedWork {
 public:
  BatchWork(py::object given_ticket, Device& device, std::vector<std::shared_ptr<HeldCall>> held, py::object reply,
            std::size_t stream_limit, Deadline deadline)
      : SubmittedWork(std::move(given_ticket)),
        device_(device),
        held_(std::move(held)),
        errors_(held_.size()),
        reply_(std::move(reply)),
        stream_limit_(stream_limit),
        deadline_(deadline) {}

  void Run() override {
    std::vector<std::shared_ptr<const OperatorCall>> calls;
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      try {
        ThrowIfOver(*cancellation, deadline_);
        ApplyChecks(*held_[i]);
        if (held_[i]->plan->is_empty) {
          WriteZeros(*held_[i]);
        } else {
          calls.push_back(CallOf(held_[i]));
          indices.push_back(i);
        }
      } catch (...) {
        errors_[i] = std::current_exception();
      }
    }
    std::vector<std::exception_ptr> found =
        device_.ExecuteAll(calls, stream_limit_, deadline_, cancellation->is_cancelled);
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
  const std::size_t stream_limit_;
  const Deadline deadline_;
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
  auto work = std::make_unique<BatchWork>(std::move(ticket), served.device, std::move(held), reply.object(),
                                          stream_limit, DeadlineOf(deadline));
  auto cancellation = work->cancellation;
  served.calls.Submit(std::move(work));
  return cancellation;
}

}  // namespace

void BindBatches(DeviceClass& device) {
  device.def("submit_batch", &SubmitBatch, py::arg("ticket"), py::arg("calls"), py::arg("deadline"),
             py::arg("released_ticket") = py::none(), py::arg("stream_limit") = SIZE_MAX,
             py::arg("workspace_limits") = std::vector<std::size_t>{});
}

}  // namespace aclgrad
