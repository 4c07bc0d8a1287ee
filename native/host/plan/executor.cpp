#include "plan/executor.h"

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "device/runtime.h"
#include "plan/device_access.h"
#include "plan/launch.h"
#include "strict/strict.h"

namespace acl_host {
namespace {

// The executor of the thread's last phase 1, which CANN keeps as well.
thread_local const aclOpExecutor* last_planned = nullptr;

// Marks an executor while a thread is in its phase 2.
class Running {
 public:
  explicit Running(const aclOpExecutor* executor) : executor_(executor) {
    const std::lock_guard<std::mutex> lock(Mutex());
    is_first_ = All().insert(executor).second;
  }
  ~Running() {
    const std::lock_guard<std::mutex> lock(Mutex());
    if (is_first_) All().erase(executor_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  [[nodiscard]] bool is_first() const { return is_first_; }

 private:
  static std::mutex& Mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::set<const aclOpExecutor*>& All() {
    static std::set<const aclOpExecutor*> all;
    return all;
  }

  const aclOpExecutor* const executor_;
  bool is_first_ = false;
};

std::string_view OperatorName(std::string_view phase_one) {
  constexpr std::string_view kSuffix = "GetWorkspaceSize";
  return phase_one.substr(0, phase_one.size() - kSuffix.size());
}

void CheckWorkspace(const void* workspace, uint64_t size_bytes, uint64_t needed_bytes) {
  if (size_bytes > 0) CheckNotNull<OperatorError>(workspace, "workspace, with a workspaceSize above 0,");
  if (size_bytes < needed_bytes) {
    if (Strict::Active() != nullptr) {
      Report("workspace too small", std::to_string(size_bytes) + " bytes, but " + std::to_string(needed_bytes) +
                                        " are needed; given in " + Origin::Here().Text());
    }
    throw OperatorError(ACLNN_ERR_PARAM_INVALID, "workspaceSize is " + std::to_string(size_bytes) +
                                                     ", but this executor needs " + std::to_string(needed_bytes) +
                                                     " bytes");
  }
}

// Called before any check of the launch, because a refused launch also consumes the executor.
std::shared_ptr<const Plan> TakePlan(aclOpExecutor* executor) {
  if (executor->repeatable) CheckAlive(executor);
  auto plan = executor->plan;
  if (!executor->repeatable) Discard(executor, ObjectLedger::End::kLaunched);
  return plan;
}

// The memory that a launch reads and writes.
std::vector<Access> AccessesOf(const Plan& plan, const Plan::Addresses& addresses, const void* workspace) {
  std::vector<Access> accesses;
  auto address = addresses.begin();
  plan.ForOperands([&](const aclTensor& tensor, bool is_output) {
    CheckAlive(tensor.storage->tensor);
    const ByteExtent view = ViewExtent(tensor);
    const void* const storage = *address++;
    if (view.size > 0) accesses.push_back({static_cast<const std::byte*>(storage) + view.begin, view.size, is_output});
  });
  if (plan.workspace_bytes() > 0) accesses.push_back({workspace, plan.workspace_bytes(), true});
  return accesses;
}

}  // namespace

bool IsLastPlanned(const aclOpExecutor& executor) { return &executor == last_planned; }

void PublishPlan(const char* phase_one, Plan plan, uint64_t& workspace_size, aclOpExecutor*& executor) {
  (void)Runtime::Current()->CurrentContext();
  auto shared = std::make_shared<const Plan>(std::move(plan));
  workspace_size = shared->workspace_bytes();
  auto owned = std::make_unique<aclOpExecutor>(aclOpExecutor{std::move(shared), OperatorName(phase_one)});
  if (Strict* const strict = Strict::Active()) strict->objects.Add("an executor", owned.get());
  executor = owned.release();
  last_planned = executor;
}

aclnnStatus RunOperator(const char* function, void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                        aclrtStream stream) noexcept {
  return GuardOperator(function, [&] {
    CheckNotNull<OperatorError>(executor, "executor");
    std::optional<Running> running;
    if (Strict::Active() != nullptr && !running.emplace(executor).is_first()) {
      Refuse("executor run twice at once", "by two threads; again in " + Origin::Here().Text());
    }
    const std::shared_ptr<const Plan> plan = TakePlan(executor);
    CheckWorkspace(workspace, workspace_size, plan->workspace_bytes());
    if (plan->does_nothing()) {
      (void)Runtime::Current()->FindStream(stream);
      return;
    }
    auto addresses = plan->ReadAddresses();
    const auto runtime = Runtime::Current();
    const auto target = runtime->FindStream(stream);
    CheckLaunchSides(*runtime, target->device(), *plan, addresses, workspace, workspace_size);
    Strict* const strict = Strict::Active();
    std::vector<Access> accesses;
    if (strict != nullptr) {
      accesses = AccessesOf(*plan, addresses, workspace);
      for (const Access& access : accesses) strict->memory.CheckReachable(access);
      CheckOperands(*runtime, accesses);
    }
    QueuedLaunch launch{plan, std::move(addresses), static_cast<std::byte*>(workspace),
                        runtime->faults().Next(Site::kLaunch), nullptr};
    if (strict != nullptr) launch.use = strict->memory.BeginUse(accesses, "launch", launch.occurrence.number);
    // Faults may take any time, and strict mode detects misuse by the work that has not ended.
    const bool now = plan->is_short() && strict == nullptr && launch.occurrence.fault == nullptr;
    auto task = [launch = std::move(launch), &owner = *target] { launch.Run(owner); };
    now ? target->EnqueueShort(std::move(task)) : target->Enqueue(std::move(task));
  });
}

}  // namespace acl_host
