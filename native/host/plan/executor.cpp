#include "plan/executor.h"

#include <csignal>
#include <memory>
#include <string>

#include "device/runtime.h"
#include "plan/device_access.h"
#include "plan/launch.h"

namespace acl_host {
namespace {

std::string_view OperatorName(std::string_view phase_one) {
  constexpr std::string_view kSuffix = "GetWorkspaceSize";
  return phase_one.substr(0, phase_one.size() - kSuffix.size());
}

void CheckWorkspace(const void* workspace, uint64_t size_bytes, uint64_t needed_bytes) {
  if (size_bytes > 0) CheckNotNull<OperatorError>(workspace, "workspace, with a workspaceSize above 0,");
  if (size_bytes < needed_bytes) {
    throw OperatorError(ACLNN_ERR_PARAM_INVALID, "workspaceSize is " + std::to_string(size_bytes) +
                                                     ", but this executor needs " + std::to_string(needed_bytes) +
                                                     " bytes");
  }
}

// Refuses or ends what a fault does not let reach the device.
void ApplyToPhase2(const Occurrence& occurrence) {
  if (occurrence.Has(FaultKind::kCrash)) (void)raise(SIGSEGV);
  if (!occurrence.Has(FaultKind::kPhase2Error)) return;
  throw OperatorError(occurrence.fault->code,
                      "launch " + std::to_string(occurrence.number) + " is refused by the fault plan");
}

}  // namespace

void PublishPlan(const char* phase_one, const aclTensor* first, Plan plan, uint64_t& workspace_size,
                 aclOpExecutor*& executor) {
  const auto runtime = Runtime::Current();
  (void)runtime->CurrentContext();
  const CalledOperator called{OperatorName(phase_one), first == nullptr ? ACL_DT_UNDEFINED : first->data_type};
  if (const Occurrence occurrence = runtime->faults().Next(Site::kPlan, called); occurrence.fault != nullptr) {
    throw OperatorError(occurrence.fault->code,
                        "plan " + std::to_string(occurrence.number) + " fails by the fault plan");
  }
  if (!plan.does_nothing()) plan.AddIdleWorkspace(runtime->config().workspace_percent);
  auto shared = std::make_shared<const Plan>(std::move(plan));
  workspace_size = shared->workspace_bytes();
  executor = std::make_unique<aclOpExecutor>(aclOpExecutor{std::move(shared), called}).release();
}

aclnnStatus RunOperator(const char* function, void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                        aclrtStream stream) noexcept {
  return GuardOperator(function, [&] {
    CheckNotNull<OperatorError>(executor, "executor");
    const std::shared_ptr<const Plan> plan = executor->plan;
    const CalledOperator called = executor->called;
    // Before any check of the launch, because a refused launch also consumes the executor.
    const std::unique_ptr<aclOpExecutor> consumed(executor->repeatable ? nullptr : executor);
    CheckWorkspace(workspace, workspace_size, plan->workspace_bytes());
    if (plan->does_nothing()) {
      (void)Runtime::Current()->FindStream(stream);
      return;
    }
    auto addresses = plan->ReadAddresses();
    const auto runtime = Runtime::Current();
    const auto target = runtime->FindStream(stream);
    CheckLaunchSides(*runtime, target->device(), *plan, addresses, workspace, workspace_size);
    const Occurrence occurrence = runtime->faults().Next(Site::kLaunch, called);
    ApplyToPhase2(occurrence);
    QueuedLaunch launch{plan, std::move(addresses), static_cast<std::byte*>(workspace), occurrence};
    // Faults may take any time.
    const HostStream::Time time = launch.occurrence.fault == nullptr ? plan->time() : HostStream::Time::kAny;
    target->Enqueue([launch = std::move(launch), &owner = *target] { launch.Run(owner); }, time);
  });
}

}  // namespace acl_host
