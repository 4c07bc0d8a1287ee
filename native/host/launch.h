// One launch of an operator: what its stream runs.
#ifndef ACL_HOST_LAUNCH_H_
#define ACL_HOST_LAUNCH_H_

#include <cstddef>
#include <memory>

#include "fault_plan.h"
#include "plan.h"
#include "stream.h"

namespace acl_host {

struct QueuedLaunch {
  std::shared_ptr<const Plan> plan;
  Plan::Addresses addresses;
  std::byte* workspace;
  Occurrence occurrence;
  std::shared_ptr<const void> use;  // of memory, known to strict mode

  // On the stream's thread.
  void Run(Stream& stream) const;
};

}  // namespace acl_host

#endif  // ACL_HOST_LAUNCH_H_
