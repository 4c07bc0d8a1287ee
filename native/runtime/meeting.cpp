#include "meeting.h"

#include <string>

#include "error.h"

namespace aclgrad {

void Meeting::Join(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (missing_count_ != 0 && --missing_count_ == 0) complete_.notify_all();
  if (complete_.wait_until(lock, deadline, [this] { return missing_count_ == 0; })) return;
  throw NotBegun("the call", std::to_string(missing_count_) + " of its kind did not begin in time");
}

}  // namespace aclgrad
