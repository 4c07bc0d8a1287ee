// The ABI: streams.
#include <string>

#include "acl/acl_rt.h"
#include "device/runtime.h"
#include "device/wait.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"

using acl_host::DeadlineAfter;
using acl_host::Error;
using acl_host::GuardRuntime;
using acl_host::HostStream;
using acl_host::Required;
using acl_host::Runtime;
using acl_host::Site;

namespace {

void SynchronizeStream(aclrtStream handle, int32_t timeout_ms) {
  const auto deadline = DeadlineAfter(timeout_ms);
  const auto runtime = Runtime::Current();
  if (!runtime->FindStream(handle)->Synchronize(deadline)) {
    throw Error(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                "the stream was still at work after " + std::to_string(timeout_ms) + " ms");
  }
}

void Destroy(aclrtStream handle, HostStream::Pending pending) {
  const auto runtime = Runtime::Current();
  (void)runtime->faults().Next(Site::kDestroyStream);
  runtime->DestroyStream(handle, pending);
}

}  // namespace

aclError aclrtCreateStream(aclrtStream* stream) {
  return GuardRuntime(__func__, [&] {
    aclrtStream& handle = Required(stream, "stream");
    handle = Runtime::Current()->CreateStream();
  });
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t /*priority*/, uint32_t flag) {
  return GuardRuntime(__func__, [&] {
    aclrtStream& handle = Required(stream, "stream");
    if ((flag & ~(ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC)) != 0) {
      throw Error(ACL_ERROR_RT_PARAM_INVALID, "there is no stream flag " + std::to_string(flag));
    }
    handle = Runtime::Current()->CreateStream();
  });
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return GuardRuntime(__func__, [&] { Destroy(stream, HostStream::Pending::kRun); });
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return GuardRuntime(__func__, [&] { Destroy(stream, HostStream::Pending::kDrop); });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return GuardRuntime(__func__, [&] { SynchronizeStream(stream, -1); });
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return GuardRuntime(__func__, [&] { SynchronizeStream(stream, timeout); });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return GuardRuntime(__func__, [&] {
    aclrtStreamStatus& result = Required(status, "status");
    const auto runtime = Runtime::Current();
    result = runtime->FindStream(stream)->Idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  });
}

// As in CANN, one stream that is set to stop sets its whole context, and nothing sets it back.
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  return GuardRuntime(__func__, [&] {
    if (mode > ACL_STOP_ON_FAILURE) {
      throw Error(ACL_ERROR_RT_PARAM_INVALID, "there is no failure mode " + std::to_string(mode));
    }
    const auto target = Runtime::Current()->FindStream(stream);
    if (mode == ACL_STOP_ON_FAILURE) target->device().StopOnFailure();
  });
}
