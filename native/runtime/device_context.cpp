#include "device_context.h"

#include <atomic>

namespace aclgrad {
namespace {

std::atomic<uint64_t> last_number{0};

struct ThisThread {
  bool is_ours = false;
  uint64_t current = 0;  // the number of the context that was set last
};
thread_local ThisThread this_thread;

}  // namespace

void OwnThisThread() noexcept { this_thread.is_ours = true; }

DeviceContext::DeviceContext(const AclLibrary& library, StepWatch& steps)
    : library_(library), steps_(steps), number_(++last_number) {
  library.Check(library->aclrtGetCurrentContext(&handle_), "aclrtGetCurrentContext");
  this_thread.current = number_;
}

int DeviceContext::MakeCurrent() const noexcept {
  if (this_thread.is_ours && this_thread.current == number_) return ACL_SUCCESS;
  const StepWatch::Step step(steps_);
  const int code = library_->aclrtSetCurrentContext(handle_);
  this_thread.current = code == ACL_SUCCESS ? number_ : 0;
  return code;
}

}  // namespace aclgrad
