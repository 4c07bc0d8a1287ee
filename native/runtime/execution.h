// One operator call in progress on a device, with the stream, the memory and the tensors that it holds.
//
// On a device that takes no host addresses, tensors pass through a block of pinned memory: copies in, kernel and copies
// out are queued one after the other, and one wait ends them all. Tensors that do not fit into it are copied from and
// to pageable memory, which blocks: their copies take so long that the way of starting them no longer matters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device_loss.h"
#include "device_work.h"
#include "memory_pool.h"
#include "operator_call.h"
#include "operators.h"
#include "stream_pool.h"

namespace aclgrad {

class Execution final : public DeviceWork {
 public:
  // The inputs of most calls, and then their outputs. The copies of larger tensors take milliseconds.
  static constexpr std::size_t kMostPinnedBytes = std::size_t{4} << 20;

  Execution(const AclLibrary& library, MemoryPool& memory, MemoryPool& pinned_memory, StepWatch& steps,
            const DeviceLoss& loss, StreamLease stream, std::shared_ptr<const OperatorCall> call);

  // Plans, and queues the call's work. Queues nothing after the deadline. Throws what Device::Execute throws.
  void Start(Deadline deadline);

  // Waits once, until wait_until, and hands out the outputs. Throws if the device was lost meanwhile: a stream does not
  // report a loss that another thread has seen.
  void Finish(Deadline deadline, Deadline wait_until);

  // Whether the library says that the work takes less time than waking a thread. For a call that was started.
  [[nodiscard]] bool is_short() const noexcept { return is_short_; }

  [[nodiscard]] State Poll(int32_t timeout_ms) const noexcept override;

 private:
  // A row-major copy of a view, which the device makes before the kernel runs.
  struct ViewCopy {
    const InputForm& form;
    void* storage;
    void* address;
    KeptExecutor planned;
    void* workspace;
  };
  // A copy between pinned and device memory.
  struct PinnedCopy {
    std::byte* pinned;
    void* device;
    std::size_t size_bytes;
  };

  [[nodiscard]] std::vector<void*> PrepareOutputs();
  [[nodiscard]] void* PrepareOutput(const OutputForm& form, const OutputBytes& output);
  // Device addresses of the inputs, whose data is in place or in pinned memory. Needs the outputs' addresses.
  [[nodiscard]] std::vector<void*> PrepareInputs();
  [[nodiscard]] void* PrepareInput(const InputForm& form, const InputBytes& input);
  // The address of the copy of a view of this storage.
  [[nodiscard]] void* PrepareCopy(const InputForm& form, void* storage);
  // Whether there is nothing to copy of an output: nobody wants it, or its caller reads what the operator writes.
  [[nodiscard]] bool IsInPlace(std::size_t output) const;
  void CopyIn(const PoolBlock& block, const HostBytes& bytes);
  // What the inputs take of pinned memory, or the outputs if that is more.
  [[nodiscard]] std::size_t PinnedBytes() const;
  // A part of the pinned memory; null if the rest is too small.
  [[nodiscard]] std::byte* TakePinned(std::size_t size_bytes);
  void Launch(const std::vector<void*>& inputs);
  // Throws WorkspaceTooLarge if all workspaces of the call are. Null for size 0.
  [[nodiscard]] void* Workspace(std::size_t size_bytes);
  // Runs an executor that the stream's cache keeps, and drops it from there if that fails.
  void RunKept(const Operator& op, const std::string& key, const KeptExecutor& kept, void* workspace);
  void SetAddresses(KeptExecutor& call, const std::vector<void*>& inputs) const;
  [[nodiscard]] KeptExecutor PlanCall(const Operator& op, const std::vector<void*>& inputs) const;
  void PlanCopies(const Operator& copy_operator);
  // Phase 1, for the tensors that the call has.
  void Plan(const Operator& op, KeptExecutor& call, const std::vector<bool>& wanted,
            const std::vector<Attribute>& attributes) const;
  // Makes what an operator leaves unwritten visibly wrong: NaN, or -1 in integers, and nothing of another call.
  void FillOutputs() const;
  // Queues copies and kernel, after everything that may refuse the call.
  void Queue(const Operator& op, void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor);
  void QueueCopy(void* target, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind) const;
  void Copy(void* target, std::size_t capacity, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind) const;
  [[nodiscard]] const PoolBlock& Allocate(std::size_t size_bytes);

  const AclLibrary& library_;
  MemoryPool& memory_;
  MemoryPool& pinned_memory_;
  StepWatch& steps_;
  const DeviceLoss& loss_;
  std::shared_ptr<const OperatorCall> call_;
  std::vector<PoolBlock> blocks_;
  PoolBlock pinned_;  // empty if there is none to be had
  StreamLease stream_;
  KeptExecutor planned_;  // unless the stream's cache keeps it
  std::vector<ViewCopy> view_copies_;
  std::size_t workspace_bytes_ = 0;
  std::vector<void*> outputs_;  // on the device
  std::vector<PinnedCopy> copies_in_;
  std::vector<const std::byte*> arrivals_;  // of the outputs, in pinned memory; null for those that are copied later
  std::size_t pinned_bytes_ = 0;            // that are taken
  bool is_queued_ = false;
  bool is_short_ = false;
};

}  // namespace aclgrad
