// One call of a lane: where its tensors are, its executor, and what it queues.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "acl_library.h"
#include "executor_cache.h"
#include "lane_copies.h"
#include "lane_memory.h"
#include "operator_call.h"
#include "stream.h"

namespace aclgrad {

// Destroy it only when the stream is done with it.
class LaneCall {
 public:
  explicit LaneCall(std::shared_ptr<const OperatorCall> call) : call_(std::move(call)) {}

  [[nodiscard]] const OperatorCall& call() const noexcept { return *call_; }

  // What LaneMemory::AllocateForStep is asked for.
  [[nodiscard]] std::size_t ScratchBytes(const AclLibrary& library) const;

  // Takes memory for its tensors, and runs phase 1. Queues nothing. Throws WorkspaceTooLarge, and what phase 1 and the
  // memory pool throw.
  void Plan(const AclLibrary& library, LaneMemory& memory, LaneCopies& copies, ExecutorCache& executors);

  // That of its kernels which needs most, because they run one after the other.
  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }

  // Has the copies of its inputs made; returns what its outputs take of the pinned memory.
  [[nodiscard]] std::size_t NeedCopies(LaneCopies& copies) const;

  // Queues its kernels. An error may come after some of them.
  void Launch(const AclLibrary& library, Stream& stream, void* workspace);

  // Has the outputs copied that the host gets.
  void ReturnOutputs(LaneCopies& copies) const;

  // Whether the library says that the work takes less time than waking a thread. For a call that was planned.
  [[nodiscard]] bool is_short() const noexcept { return is_short_; }

 private:
  // A row-major copy of an input, which the device makes before the kernel runs.
  struct InputCopy {
    const InputForm& form;
    void* storage;
    void* address;
    KeptExecutor planned;
  };

  [[nodiscard]] void* PrepareOutput(const AclLibrary& library, LaneMemory& memory, const OutputForm& form,
                                    const OutputBytes& output) const;
  [[nodiscard]] void* PrepareInput(const AclLibrary& library, LaneMemory& memory, LaneCopies& copies,
                                   const InputForm& form, const InputBytes& input);
  // What the operator gets in the place of an input that it would write.
  [[nodiscard]] void* BeginOutput(const InputForm& form, const InputBytes& input, void* address);
  void PlanInputCopies(const AclLibrary& library);
  void PlanOperator(const AclLibrary& library, ExecutorCache& executors);
  [[nodiscard]] KeptExecutor MakeExecutor(const AclLibrary& library, const Operator& op) const;
  // Whether the addresses of all tensors can be set again: not those of a list, or of what is written in place.
  [[nodiscard]] bool IsRepeatable(const KeptExecutor& planned) const;
  void SetAddresses(const AclLibrary& library) const;
  // Makes what an operator leaves unwritten visibly wrong: NaN, or -1 in integers, and nothing of another call.
  void FillOutputs(const AclLibrary& library, const Stream& stream) const;
  void WriteZeros(const AclLibrary& library, const Stream& stream) const;

  std::shared_ptr<const OperatorCall> call_;
  std::vector<void*> inputs_;  // on the device, as outputs_
  std::vector<void*> outputs_;
  std::vector<std::size_t> copies_in_;
  std::vector<InputCopy> input_copies_;
  const Operator* operator_ = nullptr;
  KeptExecutor planned_;          // unless the stream's cache keeps it
  KeptExecutor* kept_ = nullptr;  // by the cache, under key_
  std::string key_;
  bool is_reused_ = false;  // it has the addresses of an earlier call
  std::size_t workspace_bytes_ = 0;
  bool is_short_ = false;
};

}  // namespace aclgrad
