// The two phases of all operators: phase 1 turns a Plan into an executor, phase 2 queues the plan on a stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"
#include "faults/fault_plan.h"
#include "plan/plan.h"

struct aclOpExecutor {
  // Shared with queued and running launches, because a repeatable executor may be destroyed meanwhile.
  std::shared_ptr<const acl_host::Plan> plan;
  acl_host::CalledOperator called;
  bool repeatable = false;
};

namespace acl_host {

// phase_one is the name of the operator's first function, first its first tensor, which may be null.
void PublishPlan(const char* phase_one, const aclTensor* first, Plan plan, uint64_t& workspace_size,
                 aclOpExecutor*& executor);

// Phase 1. make_plan checks the operator's arguments, by throwing OperatorError, and returns its Plan.
template <typename MakePlan>
[[nodiscard]] aclnnStatus PlanOperator(const char* function, const aclTensor* first, uint64_t* workspace_size,
                                       aclOpExecutor** executor, MakePlan&& make_plan) noexcept {
  return GuardOperator(function, [&] {
    uint64_t& size = Required<OperatorError>(workspace_size, "workspaceSize");
    aclOpExecutor*& made = Required<OperatorError>(executor, "executor");
    PublishPlan(function, first, std::forward<MakePlan>(make_plan)(), size, made);
  });
}

// Phase 2: queues the executor's plan with the current addresses of its tensors. Always destroys the executor, unless
// it is repeatable.
[[nodiscard]] aclnnStatus RunOperator(const char* function, void* workspace, uint64_t workspace_size,
                                      aclOpExecutor* executor, aclrtStream stream) noexcept;

}  // namespace acl_host
