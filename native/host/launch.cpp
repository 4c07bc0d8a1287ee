#include "launch.h"

#include <string>

#include "device.h"

namespace acl_host {

void QueuedLaunch::Run(Stream& stream) const {
  Device& device = stream.device();
  device.CheckUsable();
  if (occurrence.Has(FaultKind::kHang) && !stream.Pause(occurrence.fault->duration)) return;
  if (occurrence.Has(FaultKind::kLaunchError)) {
    device.Fail(occurrence.fault->code, "launch " + std::to_string(occurrence.number) + " fails by the fault plan");
  }
  plan->Run(device.pool, addresses, workspace);
}

}  // namespace acl_host
