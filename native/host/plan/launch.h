// One launch of an operator: the task of its stream.
#pragma once

#include <cstddef>
#include <memory>

#include "device/host_stream.h"
#include "faults/fault_plan.h"
#include "plan/plan.h"

namespace acl_host {

struct QueuedLaunch {
  std::shared_ptr<const Plan> plan;
  Plan::Addresses addresses;
  std::byte* workspace;
  Occurrence occurrence;

  // Runs on the stream's thread.
  void Run(HostStream& stream) const;
};

}  // namespace acl_host
