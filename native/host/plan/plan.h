// The work of an operator: phase 1 prepares it and phase 2 runs it, once or many times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "device/host_stream.h"
#include "device/thread_pool.h"
#include "plan/vector_levels.h"
#include "tensors/tensor.h"

namespace acl_host {

// Behind the part of the workspace that a kernel uses; a launch checks that it does not change.
inline constexpr uint64_t kRedZoneBytes = 512;

// The arguments of a kernel's computation. Inputs and outputs are row-major, in the order of the plan.
struct KernelArguments {
  ThreadPool& pool;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::vector<std::byte*> scratch;
};

// Holds copies of the tensors without their addresses, which may change between launches: see Storage.
class Plan {
 public:
  using Compute = std::function<void(const KernelArguments&)>;

  // Adds a tensor whose data the computation reads or writes; shape-only tensors are not added. A non-contiguous view
  // is staged in the workspace, so the computation never sees strides. It must write the whole output.
  void AddInput(const aclTensor& tensor) { inputs_.push_back(MakeOperand(tensor)); }
  // The computation gets the address of the view's first element, and follows its strides itself.
  void AddStridedInput(const aclTensor& tensor) { inputs_.push_back(MakeOperand(tensor, /*staged=*/false)); }
  void AddStridedOutput(const aclTensor& tensor) { outputs_.push_back(MakeOperand(tensor, /*staged=*/false)); }
  void AddOutput(const aclTensor& tensor) { outputs_.push_back(MakeOperand(tensor)); }

  // Device memory that only the computation uses.
  void AddScratch(uint64_t size_bytes) { scratch_offsets_.push_back(Reserve(size_bytes)); }

  // Workspace of this part of the operands' bytes that a launch writes and nobody reads, as large as that of a card.
  void AddIdleWorkspace(int32_t percent);

  // A plan without a computation is valid and does nothing, as CANN does for empty tensors.
  void SetCompute(Compute compute) { compute_ = std::move(compute); }
  // The kernel at the current vector level, with what it takes before the arguments.
  template <template <VectorLevel> class Kernel, typename... Given>
  void SetKernel(Given... given) {
    compute_ = [run = AtVectorLevel<Kernel>(), given...](const KernelArguments& arguments) {
      run(given..., arguments);
    };
  }
  // Writes zeros to the outputs that were added, and reads nothing.
  void SetZeros();

  // Promises that the run time is proportional to the operands' bytes.
  void PromiseTimeOfBytes() { time_of_bytes_ = true; }
  // Promises that it is proportional to these and to the numbers that are multiplied and added, in long rows.
  void PromiseTimeOfProducts(double products) {
    time_of_bytes_ = true;
    products_ = products;
  }
  // How long a launch takes at most.
  [[nodiscard]] HostStream::Time time() const {
    if (!time_of_bytes_ || operand_bytes_ > kBriefBytes || products_ > kBriefProducts) return HostStream::Time::kAny;
    const bool is_short = operand_bytes_ <= kShortBytes && products_ <= kShortProducts;
    return is_short ? HostStream::Time::kShort : HostStream::Time::kBrief;
  }

  // The workspace size that phase 1 returns: the bytes that Run uses, and a red zone behind them.
  [[nodiscard]] uint64_t workspace_bytes() const {
    return workspace_bytes_ == 0 ? 0 : workspace_bytes_ + kRedZoneBytes;
  }
  [[nodiscard]] uint64_t used_workspace_bytes() const { return workspace_bytes_; }
  [[nodiscard]] bool does_nothing() const { return !compute_; }

  // The storages of one launch, inputs before outputs.
  using Addresses = std::vector<void*>;

  // The tensors' current addresses; throws if a needed tensor has none.
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
  static constexpr uint64_t kBriefBytes = uint64_t{64} << 20;
  static constexpr double kShortProducts = 1 << 18;
  static constexpr double kBriefProducts = 1 << 26;

  [[nodiscard]] Operand MakeOperand(const aclTensor& tensor) { return MakeOperand(tensor, !tensor.contiguous()); }
  [[nodiscard]] Operand MakeOperand(const aclTensor& tensor, bool staged);
  [[nodiscard]] uint64_t Reserve(uint64_t size_bytes);
  [[nodiscard]] static std::byte* Locate(const Operand& operand, void* storage, std::byte* workspace);

  std::vector<Operand> inputs_;
  std::vector<Operand> outputs_;
  std::vector<uint64_t> scratch_offsets_;
  uint64_t workspace_bytes_ = 0;
  uint64_t operand_bytes_ = 0;
  uint64_t idle_offset_ = 0;
  uint64_t idle_bytes_ = 0;
  bool time_of_bytes_ = false;
  double products_ = 0;
  Compute compute_;
};

}  // namespace acl_host
