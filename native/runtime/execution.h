// The calls of one lane in progress on a device, with the stream and the memory that they hold.
//
// All calls are planned first. Then the stream gets the copies of their inputs, their kernels in order, and the copies
// of their outputs, and one wait ends them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "constants.h"
#include "device_loss.h"
#include "device_work.h"
#include "group.h"
#include "lane_call.h"
#include "lane_copies.h"
#include "lane_memory.h"
#include "memory_pool.h"
#include "stream_pool.h"

namespace aclgrad {

// What the executions of a device have in common.
struct ExecutionContext {
  const AclLibrary& library;
  MemoryPool& memory;
  MemoryPool& pinned_memory;
  Constants& constants;
  StepWatch& steps;
  DeviceLoss& loss;
};

class Execution final : public DeviceWork {
 public:
  // One call.
  Execution(const ExecutionContext& context, StreamLease stream, std::shared_ptr<const OperatorCall> call);
  // A lane of the group, whose steps get their errors. The group must be there during Start.
  Execution(const ExecutionContext& context, StreamLease stream, Group& group, const Lane& lane);

  // Plans, and queues the work. Queues nothing after the deadline. Throws what Device::Execute throws if no call of the
  // lane can have a result; what fails one of several calls is its error, and the calls that need it fail as well.
  void Start(Deadline deadline, Deadline wait_until);

  // Waits once, until wait_until, and hands out the outputs. Throws if the device was lost meanwhile: a stream does not
  // report a loss that another thread has seen.
  void Finish(Deadline deadline, Deadline wait_until);

  // Whether the library says that the work takes less time than waking a thread. For one call that was started.
  [[nodiscard]] bool is_short() const noexcept { return steps_.front().call.is_short(); }

  [[nodiscard]] State Poll(int32_t timeout_ms) const noexcept override;

 private:
  struct Step {
    Step(std::shared_ptr<const OperatorCall> given_call, std::exception_ptr* given_error, std::size_t number)
        : call(std::move(given_call)), error(given_error), cause(number) {}

    LaneCall call;
    std::exception_ptr* error;         // the group's
    std::size_t cause;                 // if it failed: the number in the group of the step that failed first
    std::vector<std::size_t> needs{};  // in the lane
  };

  [[nodiscard]] bool is_alone() const noexcept { return steps_.size() == 1; }
  // A step of the watch, which ends and begins anew with each call of the lane, and with each wait.
  using Watched = std::optional<StepWatch::Step>;

  void PlanAll(Watched& watched);
  void LaunchAll(Watched& watched, Deadline deadline, Deadline wait_until);
  // Does a part of the work of a step that has not failed; returns whether that went well. If the lane has other steps
  // and the device is not lost, an error is the step's own, after settle.
  template <typename Part, typename Settle>
  bool Try(Step& step, const Part& part, const Settle& settle);
  // Whether the step has failed, or fails now because one has failed that it needs.
  [[nodiscard]] bool HasFailed(Step& step) const;
  void Wait(Deadline deadline, Deadline wait_until) const;

  const ExecutionContext context_;
  LaneMemory memory_;
  LaneCopies copies_;
  StreamLease stream_;
  const std::size_t arena_bytes_ = 0;
  std::vector<Step> steps_;
  std::exception_ptr error_;   // of one call: always null, because what fails that call is thrown
  void* workspace_ = nullptr;  // of each step in its turn
  bool is_queued_ = false;
};

}  // namespace aclgrad
