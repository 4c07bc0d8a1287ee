#include "completions.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace aclgrad {

Completions::Completions() : file_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (file_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Completions::~Completions() { close(file_); }

void Completions::Add(std::unique_ptr<Work> work) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = done_.empty();
    done_.push_back(std::move(work));
  }
  // One wake-up for all work completed until the next Drain. The counter cannot overflow: Drain resets it.
  if (was_empty) static_cast<void>(eventfd_write(file_, 1));
}

std::vector<std::unique_ptr<Work>> Completions::Drain() {
  eventfd_t count = 0;
  // Before the list is taken: work that is added later signals again.
  static_cast<void>(eventfd_read(file_, &count));
  std::vector<std::unique_ptr<Work>> done;
  const std::lock_guard lock(mutex_);
  done.swap(done_);
  return done;
}

}  // namespace aclgrad
