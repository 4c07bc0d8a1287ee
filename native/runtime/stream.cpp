#include "stream.h"

#include <algorithm>
#include <thread>

#include "error.h"

namespace aclgrad {
namespace {

constexpr int32_t kErrorTimeoutMs = 1000;
// For a stream that answers no query.
constexpr int32_t kUnknownTimeoutMs = 1;

}  // namespace

int32_t MillisecondsUntil(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Deadline::clock::now());
  return static_cast<int32_t>(std::clamp<int64_t>(left.count(), 1, INT32_MAX));
}

Stream::Stream(const AclLibrary& library, StepWatch& steps, std::size_t executor_limit,
               ExecutorCounters& executor_counters)
    : library_(library), steps_(steps), executors_(library, executor_limit, executor_counters) {
  const StepWatch::Step step(steps_);
  library_.Check(library_->aclrtCreateStream(&stream_), "aclrtCreateStream");
  stops_at_faults_ = library_->aclrtSetStreamFailureMode != nullptr &&
                     library_.Ignore(library_->aclrtSetStreamFailureMode(stream_, ACL_STOP_ON_FAILURE)) == ACL_SUCCESS;
}

Stream::~Stream() {
  // Destroying waits for the work, and a kernel that hangs never ends.
  library_.Ignore(IsDone().value_or(false) ? library_->aclrtDestroyStream(stream_)
                                           : library_->aclrtDestroyStreamForce(stream_));
}

std::optional<bool> Stream::IsDone() const noexcept {
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  if (library_.Ignore(library_->aclrtStreamQuery(stream_, &status)) != ACL_SUCCESS) return std::nullopt;
  return status == ACL_STREAM_STATUS_COMPLETE;
}

void Stream::Wait(Deadline deadline) const {
  const int code = library_->aclrtSynchronizeStreamWithTimeout(stream_, MillisecondsUntil(deadline));
  try {
    library_.Check(code, "aclrtSynchronizeStream");
  } catch (const AclError& error) {
    throw AclError(error.code(), FaultOf(error.code()), error.call(), error.detail());
  }
}

FaultClass Stream::FaultOf(int code) const noexcept {
  const FaultClass fault = ClassifyFault(code);
  return stops_at_faults_ && fault != FaultClass::kTimeout ? FaultClass::kDeviceLost : fault;
}

DeviceWork::State Stream::Poll(int32_t timeout_ms) const noexcept {
  const Deadline deadline = Deadline::clock::now() + std::chrono::milliseconds(timeout_ms);
  const StepWatch::Step step(steps_, deadline);
  for (std::chrono::milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    const int code = library_.Ignore(library_->aclrtStreamQuery(stream_, &status));
    if (ClassifyFault(code) == FaultClass::kDeviceLost) return {false, code};
    // Only a query that says so, or a wait that ends well, proves that the work is done. Any other code says nothing of
    // it: a kernel may still write to its memory.
    const bool is_idle = code == ACL_SUCCESS && status == ACL_STREAM_STATUS_COMPLETE;
    if (is_idle || code != ACL_SUCCESS) {
      // On an idle stream this does not wait: it consumes the stream's error, so that the next call does not see it.
      const int32_t limit_ms = is_idle ? kErrorTimeoutMs : kUnknownTimeoutMs;
      const int error = library_.Ignore(library_->aclrtSynchronizeStreamWithTimeout(stream_, limit_ms));
      if (error != ACL_SUCCESS && FaultOf(error) == FaultClass::kDeviceLost) return {false, error};
      if (error == ACL_SUCCESS || (is_idle && ClassifyFault(error) != FaultClass::kTimeout)) return {true};
    }
    if (Deadline::clock::now() >= deadline) return {false};
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace aclgrad
