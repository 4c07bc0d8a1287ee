// The two phases that all operators share. A kernel file describes its work as a Plan; everything around it is here.
#ifndef ACL_HOST_EXECUTOR_H_
#define ACL_HOST_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "error.h"
#include "tensor.h"
#include "thread_pool.h"

namespace acl_host {

// What a kernel's computation gets. Inputs and outputs are row-major, in the order in which the plan names them.
struct Launch {
  ThreadPool& pool;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::vector<std::byte*> scratch;
};

// What phase 1 prepares and phase 2 runs. It holds copies: no aclTensor is touched after phase 2 has returned.
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

  [[nodiscard]] uint64_t workspace_bytes() const { return workspace_bytes_; }
  [[nodiscard]] bool does_nothing() const { return !compute_; }

  // Throws if a tensor that is needed has no address.
  void CheckAddresses() const;

  void Run(ThreadPool& pool, std::byte* workspace) const;

 private:
  struct Operand {
    aclTensor tensor;
    bool staged;
    uint64_t workspace_offset;  // if staged
  };

  [[nodiscard]] Operand MakeOperand(const aclTensor& tensor);
  [[nodiscard]] uint64_t Reserve(uint64_t size_bytes);
  [[nodiscard]] static std::byte* Address(const Operand& operand, std::byte* workspace);

  std::vector<Operand> inputs_;
  std::vector<Operand> outputs_;
  std::vector<uint64_t> scratch_offsets_;
  uint64_t workspace_bytes_ = 0;
  Compute compute_;
};

// Phase 1. make_plan checks the operator's arguments, by throwing OperatorError, and returns its Plan.
void PublishPlan(Plan plan, uint64_t* workspace_size, aclOpExecutor** executor);
void CheckPhase1Pointers(const uint64_t* workspace_size, aclOpExecutor* const* executor);

template <typename MakePlan>
[[nodiscard]] aclnnStatus PlanOperator(const char* function, uint64_t* workspace_size, aclOpExecutor** executor,
                                       MakePlan&& make_plan) noexcept {
  return GuardOperator(function, [&] {
    CheckPhase1Pointers(workspace_size, executor);
    PublishPlan(std::forward<MakePlan>(make_plan)(), workspace_size, executor);
  });
}

// Phase 2: queues the executor's plan and destroys the executor, whatever the outcome.
[[nodiscard]] aclnnStatus RunOperator(const char* function, void* workspace, uint64_t workspace_size,
                                      aclOpExecutor* executor, aclrtStream stream) noexcept;

}  // namespace acl_host

struct aclOpExecutor {
  acl_host::Plan plan;
};

#endif  // ACL_HOST_EXECUTOR_H_
