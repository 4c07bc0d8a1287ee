#include "plan/executor.h"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "device/host_stream.h"
#include "device/runtime.h"
#include "plan/device_access.h"
#include "tensors/strided_copy.h"

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

// Bytes behind the part of the workspace that a kernel uses. They are written before it runs and checked afterwards.
class RedZone {
 public:
  // begin is null for a launch without workspace, which has no red zone.
  explicit RedZone(std::byte* begin) : begin_(begin) {
    if (begin_ != nullptr) std::memset(begin_, static_cast<int>(kPattern), kRedZoneBytes);
  }

  // The number of unchanged bytes before the first changed one; kRedZoneBytes if all are unchanged.
  [[nodiscard]] uint64_t IntactBytes() const {
    if (begin_ == nullptr) return kRedZoneBytes;
    const auto* const damage =
        std::find_if(begin_, begin_ + kRedZoneBytes, [](std::byte value) { return value != kPattern; });
    return static_cast<uint64_t>(damage - begin_);
  }

 private:
  static constexpr std::byte kPattern{0xA5};

  std::byte* const begin_;
};

// One launch of an operator: the task of its stream.
struct QueuedLaunch {
  std::shared_ptr<const Plan> plan;
  Plan::Addresses addresses;
  std::byte* workspace;
  Occurrence occurrence;

  // Runs on the stream's thread.
  void Run(HostStream& stream) const;
};

// An output's elements, row-major.
struct Output {
  const aclTensor& tensor;
  void* storage;
  std::vector<std::byte> elements;
};

std::vector<Output> ReadOutputs(ThreadPool& pool, const Plan& plan, const Plan::Addresses& addresses) {
  std::vector<Output> outputs;
  auto address = addresses.begin();
  plan.ForOperands([&](const aclTensor& tensor, bool is_output) {
    void* const storage = *address++;
    if (!is_output) return;
    const size_t size = static_cast<size_t>(ElementCount(tensor.view_dims)) * aclDataTypeSize(tensor.data_type);
    CopyFromView(pool, tensor, storage,
                 outputs.emplace_back(Output{tensor, storage, std::vector<std::byte>(size)}).elements.data());
  });
  return outputs;
}

// Makes the outputs NaN, which has all bits set, or gives the second half of each what it was before.
void SpoilOutputs(ThreadPool& pool, FaultKind kind, std::vector<Output> before, std::vector<Output> after) {
  for (size_t index = 0; index < after.size(); ++index) {
    auto& [tensor, storage, elements] = after[index];
    if (kind == FaultKind::kNanOutput) {
      std::fill(elements.begin(), elements.end(), std::byte{0xFF});
    } else {
      const size_t size = aclDataTypeSize(tensor.data_type);
      const auto half = static_cast<std::ptrdiff_t>(elements.size() / size / 2 * size);
      std::copy(before[index].elements.begin() + half, before[index].elements.end(), elements.begin() + half);
    }
    CopyToView(pool, elements.data(), tensor, storage);
  }
}

void QueuedLaunch::Run(HostStream& stream) const {
  HostDevice& device = stream.device();
  device.CheckUsable();
  if (occurrence.Has(FaultKind::kUnwrittenOutput)) return;
  const uint64_t used_bytes = plan->used_workspace_bytes();
  const RedZone red_zone(used_bytes == 0 ? nullptr : workspace + used_bytes);
  if (occurrence.Has(FaultKind::kHang) && !stream.Pause(occurrence.fault->duration)) return;
  if (occurrence.fault != nullptr && occurrence.fault->code != ACL_SUCCESS) {
    throw Error(occurrence.fault->code, "launch " + std::to_string(occurrence.number) + " fails by the fault plan");
  }
  if (occurrence.Has(FaultKind::kNanOutput) || occurrence.Has(FaultKind::kHalfOutput)) {
    auto before = ReadOutputs(device.pool, *plan, addresses);
    plan->Run(device.pool, addresses, workspace);
    auto after = ReadOutputs(device.pool, *plan, addresses);
    SpoilOutputs(device.pool, occurrence.fault->kind, std::move(before), std::move(after));
  } else {
    plan->Run(device.pool, addresses, workspace);
  }
  if (const uint64_t intact_bytes = red_zone.IntactBytes(); intact_bytes != kRedZoneBytes) {
    throw Error(ACL_ERROR_RT_AICORE_EXCEPTION, "launch " + std::to_string(occurrence.number) +
                                                   ": something wrote behind the workspace, at byte " +
                                                   std::to_string(used_bytes + intact_bytes) + " of it");
  }
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
