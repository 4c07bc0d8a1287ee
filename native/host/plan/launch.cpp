#include "plan/launch.h"

#include <string>

#include "acl/acl_rt.h"
#include "device/host_device.h"
#include "errors/exceptions.h"
#include "plan/red_zone.h"

namespace acl_host {

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
  plan->Run(device.pool, addresses, workspace);
  if (const uint64_t intact_bytes = red_zone.IntactBytes(); intact_bytes != kRedZoneBytes) {
    throw Error(ACL_ERROR_RT_AICORE_EXCEPTION, "launch " + std::to_string(occurrence.number) +
                                                   ": something wrote behind the workspace, at byte " +
                                                   std::to_string(used_bytes + intact_bytes) + " of it");
  }
}

}  // namespace acl_host
