#include "execution.h"

#include <algorithm>
#include <utility>

#include "error.h"

namespace aclgrad {

Execution::Execution(const ExecutionContext& context, StreamLease stream, std::shared_ptr<const OperatorCall> call)
    : context_(context),
      memory_(context.memory, context.constants),
      copies_(context.library, memory_, context.pinned_memory, context.steps, false),
      stream_(std::move(stream)) {
  steps_.emplace_back(std::move(call), &error_, 0);
}

Execution::Execution(const ExecutionContext& context, StreamLease stream, Group& group, const Lane& lane)
    : context_(context),
      memory_(context.memory, context.constants),
      copies_(context.library, memory_, context.pinned_memory, context.steps, lane.steps.size() > 1),
      stream_(std::move(stream)),
      arena_bytes_(lane.arena_bytes) {
  steps_.reserve(lane.steps.size());
  for (const std::size_t number : lane.steps) {
    GroupStep& given = group.steps[number];
    Step& step = steps_.emplace_back(given.call, &given.error, number);
    for (const std::size_t need : given.needs) {
      const auto place = std::lower_bound(lane.steps.begin(), lane.steps.end(), need);
      step.needs.push_back(static_cast<std::size_t>(place - lane.steps.begin()));
    }
  }
}

void Execution::Start(Deadline deadline, Deadline wait_until) {
  Watched watched;
  PlanAll(watched);
  std::size_t workspace_bytes = 0;
  std::size_t pinned_output_bytes = 0;
  bool is_one_left = false;
  for (Step& step : steps_) {
    if (HasFailed(step)) continue;
    is_one_left = true;
    workspace_bytes = std::max(workspace_bytes, step.call.workspace_bytes());
    pinned_output_bytes += step.call.NeedCopies(copies_);
  }
  if (!is_one_left) return;
  workspace_ = memory_.Allocate(workspace_bytes);
  copies_.PrepareInputs(pinned_output_bytes);
  // Blocking copies and allocations may take long. A kernel that begins late would look as if it hung.
  if (Deadline::clock::now() >= deadline) throw NotBegun("the call", "its deadline passed before its kernel began");
  LaunchAll(watched, deadline, wait_until);
}

void Execution::Finish(Deadline deadline, Deadline wait_until) {
  if (is_queued_) Wait(deadline, wait_until);
  copies_.FinishOutputs();
  context_.loss.ThrowIfLost();
}

DeviceWork::State Execution::Poll(int32_t timeout_ms) const noexcept {
  return is_queued_ ? stream_->Poll(timeout_ms) : State{true};
}

void Execution::PlanAll(Watched& watched) {
  std::size_t scratch_bytes = 0;
  if (!is_alone()) {
    for (const Step& step : steps_) scratch_bytes = std::max(scratch_bytes, step.call.ScratchBytes(context_.library));
  }
  memory_.Reserve(arena_bytes_, scratch_bytes);
  ExecutorCache& executors = stream_->executors();
  executors.BeginTurn();
  for (Step& step : steps_) {
    watched.emplace(context_.steps);
    memory_.BeginStep();
    const auto plan = [&] { step.call.Plan(context_.library, memory_, copies_, executors); };
    Try(step, plan, [] {});
  }
}

void Execution::LaunchAll(Watched& watched, Deadline deadline, Deadline wait_until) {
  is_queued_ = true;
  copies_.QueueInputs(*stream_);
  for (Step& step : steps_) {
    if (!is_alone()) watched.emplace(context_.steps);
    const auto launch = [&] { step.call.Launch(context_.library, *stream_, workspace_); };
    // A part of the failed step may run, with the workspace that the next one gets. And only a wait that ends well
    // shows that the results of the steps before it are good.
    const auto settle = [&] {
      watched.reset();
      Wait(deadline, wait_until);
    };
    if (Try(step, launch, settle)) step.call.ReturnOutputs(copies_);
  }
  copies_.QueueOutputs(*stream_);
}

template <typename Part, typename Settle>
bool Execution::Try(Step& step, const Part& part, const Settle& settle) {
  if (HasFailed(step)) return false;
  std::exception_ptr error;
  try {
    part();
    return true;
  } catch (const AclError& caught) {
    if (is_alone()) throw;
    context_.loss.Record(caught);
    if (caught.fault() == FaultClass::kDeviceLost) throw;
    context_.loss.ThrowIfLost(caught);
    error = std::current_exception();
  } catch (...) {
    if (is_alone()) throw;
    error = std::current_exception();
  }
  settle();
  *step.error = error;
  return false;
}

bool Execution::HasFailed(Step& step) const {
  if (*step.error) return true;
  const Step* first = nullptr;
  for (const std::size_t need : step.needs) {
    const Step& needed = steps_[need];
    if (*needed.error && (first == nullptr || needed.cause < first->cause)) first = &needed;
  }
  if (first == nullptr) return false;
  *step.error = std::make_exception_ptr(InputFailed(first->cause));
  step.cause = first->cause;
  return true;
}

void Execution::Wait(Deadline deadline, Deadline wait_until) const {
  // A kernel that may run for longer than the watch's limit after the deadline is overdue later.
  const StepWatch::Step watched(context_.steps, std::max(deadline, wait_until - context_.steps.limit()));
  // A wait after its end would be a poll, and would write to the device's log.
  if (Deadline::clock::now() >= wait_until && stream_->IsDone() == false) {
    throw AclError(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "the call", "its deadline passed before the device was done");
  }
  stream_->Wait(wait_until);
}

}  // namespace aclgrad
