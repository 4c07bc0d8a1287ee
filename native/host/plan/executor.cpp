#include "plan/executor.h"

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

}  // namespace

void PublishPlan(const char* phase_one, Plan plan, uint64_t& workspace_size, aclOpExecutor*& executor) {
  const auto runtime = Runtime::Current();
  (void)runtime->CurrentContext();
  if (!plan.does_nothing()) plan.AddIdleWorkspace(runtime->config().workspace_percent);
  auto shared = std::make_shared<const Plan>(std::move(plan));
  workspace_size = shared->workspace_bytes();
  executor = std::make_unique<aclOpExecutor>(aclOpExecutor{std::move(shared), OperatorName(phase_one)}).release();
}

aclnnStatus RunOperator(const char* function, void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                        aclrtStream stream) noexcept {
  return GuardOperator(function, [&] {
    CheckNotNull<OperatorError>(executor, "executor");
    const std::shared_ptr<const Plan> plan = executor->plan;
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
    QueuedLaunch launch{plan, std::move(addresses), static_cast<std::byte*>(workspace),
                        runtime->faults().Next(Site::kLaunch)};
    // Faults may take any time.
    const HostStream::Time time = launch.occurrence.fault == nullptr ? plan->time() : HostStream::Time::kAny;
    target->Enqueue([launch = std::move(launch), &owner = *target] { launch.Run(owner); }, time);
  });
}

}  // namespace acl_host
