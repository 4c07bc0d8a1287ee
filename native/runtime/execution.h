// One operator call in progress on a device, with the stream, the memory and the tensors that it holds.
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
  Execution(const AclLibrary& library, MemoryPool& memory, StepWatch& steps, const DeviceLoss& loss, StreamLease stream,
            std::shared_ptr<const OperatorCall> call);

  // Copies the inputs in, plans and launches; copies nothing if the device takes host addresses. Launches nothing after
  // the deadline. Throws what Device::Execute throws.
  void Start(Deadline deadline);

  // Waits once, until wait_until, and copies the outputs. Throws if the device was lost meanwhile: a stream does not
  // report a loss that another thread has seen.
  void Finish(Deadline deadline, Deadline wait_until);

  [[nodiscard]] State Poll(int32_t timeout_ms) const noexcept override;

 private:
  // Device addresses of the inputs, with their data in place.
  [[nodiscard]] std::vector<void*> PrepareInputs();
  [[nodiscard]] void* PrepareInput(const InputView& input);
  [[nodiscard]] std::vector<void*> PrepareOutputs();
  [[nodiscard]] void* PrepareOutput(const OutputView& output);
  void Launch(const std::vector<void*>& inputs);
  // Runs an executor that the stream's cache keeps, and drops it from there if that fails.
  void RunKept(const Operator& op, const std::string& key, const PlannedCall& kept, void* workspace);
  void SetAddresses(PlannedCall& call, const std::vector<void*>& inputs) const;
  [[nodiscard]] PlannedCall Plan(const Operator& op, const std::vector<void*>& inputs) const;
  void RunPhase2(const Operator& op, void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor);
  void Copy(void* target, std::size_t capacity, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind) const;
  [[nodiscard]] const PoolBlock& Allocate(std::size_t size_bytes);

  const AclLibrary& library_;
  MemoryPool& memory_;
  StepWatch& steps_;
  const DeviceLoss& loss_;
  std::shared_ptr<const OperatorCall> call_;
  std::vector<PoolBlock> blocks_;
  StreamLease stream_;
  PlannedCall planned_;         // unless the stream's cache keeps it
  std::vector<void*> outputs_;  // on the device
  bool launched_ = false;
};

}  // namespace aclgrad
