#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "step_watch.h"

namespace aclgrad {

// Holds work until so much of it has begun, each on a thread of its own.
class Meeting {
 public:
  explicit Meeting(std::size_t count) : missing_count_(count) {}

  // Throws NotBegun if some are missing at the deadline.
  void Join(Deadline deadline);

 private:
  std::mutex mutex_;
  std::condition_variable complete_;
  std::size_t missing_count_;
};

}  // namespace aclgrad
