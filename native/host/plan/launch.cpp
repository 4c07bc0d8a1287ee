#include "plan/launch.h"

#include <algorithm>
#include <string>
#include <vector>

#include "acl/acl_rt.h"
#include "device/host_device.h"
#include "errors/exceptions.h"
#include "plan/red_zone.h"
#include "tensors/strided_copy.h"

namespace acl_host {
namespace {

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

}  // namespace

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

}  // namespace acl_host
