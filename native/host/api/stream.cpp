// The ABI: streams.
#include <string>

#include "api.h"
#include "device/runtime.h"
#include "device/wait.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"

namespace acl_host {
namespace {

void Destroy(aclrtStream handle, HostStream::Pending pending) {
  const auto runtime = Runtime::Current();
  (void)runtime->faults().Next(Site::kDestroyStream);
  runtime->DestroyStream(handle, pending);
}

}  // namespace

void api::aclrtCreateStream(aclrtStream* stream) {
  aclrtStream& handle = Required(stream, "stream");
  handle = Runtime::Current()->CreateStream();
}

void api::aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t /*priority*/, uint32_t flag) {
  aclrtStream& handle = Required(stream, "stream");
  if ((flag & ~(ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC)) != 0) {
    throw Error(ACL_ERROR_RT_PARAM_INVALID, "there is no stream flag " + std::to_string(flag));
  }
  handle = Runtime::Current()->CreateStream();
}

void api::aclrtDestroyStream(aclrtStream stream) { Destroy(stream, HostStream::Pending::kRun); }

void api::aclrtDestroyStreamForce(aclrtStream stream) { Destroy(stream, HostStream::Pending::kDrop); }

void api::aclrtSynchronizeStream(aclrtStream stream) { api::aclrtSynchronizeStreamWithTimeout(stream, -1); }

void api::aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  const auto deadline = DeadlineAfter(timeout);
  const auto runtime = Runtime::Current();
  if (!runtime->FindStream(stream)->Synchronize(deadline)) {
    throw Error(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                "the stream was still at work after " + std::to_string(timeout) + " ms");
  }
}

void api::aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  aclrtStreamStatus& result = Required(status, "status");
  const auto runtime = Runtime::Current();
  result = runtime->FindStream(stream)->Idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
}

// As in CANN, one stream that is set to stop sets its whole context, and nothing sets it back.
void api::aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  if (mode > ACL_STOP_ON_FAILURE) {
    throw Error(ACL_ERROR_RT_PARAM_INVALID, "there is no failure mode " + std::to_string(mode));
  }
  const auto runtime = Runtime::Current();
  const auto target = runtime->FindStream(stream);
  if (!runtime->config().stream_failure_mode) {
    throw Error(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the configuration says that streams have no failure mode");
  }
  if (mode == ACL_STOP_ON_FAILURE) return target->StopOnFailure();
  if (target->stops_on_failure()) {
    throw Error(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "a stream that stops on failure stays so");
  }
}

}  // namespace acl_host
