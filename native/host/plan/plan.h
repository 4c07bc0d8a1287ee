// What phase 1 of an operator prepares and phase 2 runs, once or many times. A kernel file describes its work as a
// Plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "device/thread_pool.h"
#include "plan/red_zone.h"
#include "tensors/tensor.h"

namespace acl_host {

// What a kernel's computation gets. Inputs and outputs are row-major, in the order in which the plan names them.
struct Launch {
  ThreadPool& pool;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::vector<std::byte*> scratch;
};

// It holds copies of the tensors, but for their addresses, which may change between launches: see Storage.
class Plan {
 public:
  using Compute = std::function<void(const Launch&)>;

  // Names a tensor whose data the computation reads or writes (shape-only tensors are not named). A view that is not
  // contiguous is staged through the workspace, so the computation never sees strides. It must write all of an output.
  void AddInput(const aclTensor& tensor) { inputs_.push_back(MakeOperand(tensor)); }
  void AddOutput(const aclTensor& tensor) { outputs_.push_back(MakeOperand(tensor)); }

  // Device memory for the computation alone.
  void AddScratch(uint64_t size_bytes) { scratch_offsets_.push_back(Reserve(size_bytes)); }

  // A plan without computation is valid and does nothing: what CANN does for empty tensors.
  void SetCompute(Compute compute) { compute_ = std::move(compute); }

  // Promises that the computation takes no longer than its operands' bytes let expect.
  void PromiseTimeOfBytes() { time_of_bytes_ = true; }
  // Whether a launch takes about as long as waking a thread would.
  [[nodiscard]] bool is_short() const { return time_of_bytes_ && operand_bytes_ <= kShortBytes; }

  // What phase 1 asks for: what Run uses and, behind it, a red zone.
  [[nodiscard]] uint64_t workspace_bytes() const {
    return workspace_bytes_ == 0 ? 0 : workspace_bytes_ + kRedZoneBytes;
  }
  [[nodiscard]] uint64_t used_workspace_bytes() const { return workspace_bytes_; }
  [[nodiscard]] bool does_nothing() const { return !compute_; }

  // The storages of one launch, inputs before outputs.
  using Addresses = std::vector<void*>;

  // As the tensors tell them now; throws if a tensor that is needed has none.
  [[nodiscard]] Addresses ReadAddresses() const;

  // Calls visit(tensor, is_output) in the order of Addresses.
  template <typename Visit>
  void ForOperands(const Visit& visit) const {
    for (const Operand& operand : inputs_) visit(operand.tensor, false);
    for (const Operand& operand : outputs_) visit(operand.tensor, true);
  }

  void Run(ThreadPool& pool, const Addresses& addresses, std::byte* workspace) const;

 private:
  struct Operand {
    aclTensor tensor;
    bool staged;
    uint64_t workspace_offset;  // if staged
  };

  static constexpr uint64_t kShortBytes = 65536;

  [[nodiscard]] Operand MakeOperand(const aclTensor& tensor);
  [[nodiscard]] uint64_t Reserve(uint64_t size_bytes);
  [[nodiscard]] static std::byte* Locate(const Operand& operand, void* storage, std::byte* workspace);

  std::vector<Operand> inputs_;
  std::vector<Operand> outputs_;
  std::vector<uint64_t> scratch_offsets_;
  uint64_t workspace_bytes_ = 0;
  uint64_t operand_bytes_ = 0;
  bool time_of_bytes_ = false;
  Compute compute_;
};

}  // namespace acl_host
