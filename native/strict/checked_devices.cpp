// Devices, contexts, streams and events.
#include <algorithm>
#include <memory>
#include <string>

#include "real.h"
#include "report.h"
#include "session.h"

namespace acl_strict {
namespace {

constexpr const char* kStream = "a stream";
constexpr const char* kEvent = "an event";
constexpr uint64_t kMostLateWaits = 3;

struct Stream {
  StreamName name;
  std::atomic<uint64_t> late_waits{0};  // in a row
};

struct Event {
  std::mutex mutex;
  Mark mark;  // what was queued before the event was recorded
};

aclError NoteStream(aclError code, const aclrtStream* stream) {
  if (code != ACL_SUCCESS) return code;
  auto facts = std::make_shared<Stream>();
  facts->name = NameOf(nullptr);
  facts->name.stream = *stream;
  TheSession().objects.Add(kStream, *stream, std::move(facts));
  return code;
}

template <typename IsMeant>
void RetireStreamsIf(const IsMeant& is_meant) {
  TheSession().objects.RetireIf(kStream,
                                [&](const void* facts) { return is_meant(static_cast<const Stream*>(facts)->name); });
}

template <typename IsMeant>
void EndStreamsIf(const IsMeant& is_meant) {
  RetireStreamsIf(is_meant);
  TheSession().work.EndIf(is_meant);
}

// Before the library destroys a handle, because another thread may be given the same address at once.
aclError Destroy(aclError (*destroy)(void*), void* handle) {
  ObjectLedger& objects = TheSession().objects;
  (void)objects.Retire(handle, ObjectLedger::End::kDestroyed);
  const aclError code = destroy(handle);
  if (code != ACL_SUCCESS) objects.Revive(handle);
  return code;
}

template <typename Wait>
aclError Synchronize(aclrtStream stream, const Wait& wait) {
  Session& session = TheSession();
  const StreamName name = NameOf(stream);
  const auto facts = stream == nullptr ? nullptr : session.objects.FactsOf<Stream>(stream);
  const uint64_t begun = session.work.begun();
  const aclError code = wait();
  if (code == ACL_SUCCESS) session.work.End(name, begun);
  if (facts == nullptr) return code;
  if (code != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) {
    facts->late_waits = 0;
    return code;
  }
  // A card logs each late wait, and some cards run a task on the device to find the cause.
  const uint64_t waits = ++facts->late_waits;
  if (waits > kMostLateWaits) {
    Report("wait polled", std::to_string(waits) + " waits for a stream timed out in a row; ask aclrtStreamQuery in " +
                              Origin::Here().Text());
  }
  return code;
}

template <typename Wait>
aclError SynchronizeDevice(const Wait& wait) {
  const int32_t device = CurrentDevice();
  const uint64_t begun = TheSession().work.begun();
  const aclError code = wait();
  if (code == ACL_SUCCESS) {
    TheSession().work.EndIf([&](const StreamName& name) { return name.device == device; }, begun);
  }
  return code;
}

Mark MarkOf(aclrtEvent event) {
  const auto facts = TheSession().objects.FactsOf<Event>(event);
  if (facts == nullptr) return {};
  const std::lock_guard<std::mutex> lock(facts->mutex);
  return facts->mark;
}

template <typename Wait>
aclError SynchronizeEvent(aclrtEvent event, const Wait& wait) {
  const Mark mark = MarkOf(event);
  const aclError code = wait();
  if (code == ACL_SUCCESS) TheSession().work.End(mark.name, mark.number);
  return code;
}

aclError NoteEvent(aclError code, const aclrtEvent* event) {
  if (code == ACL_SUCCESS) TheSession().objects.Add(kEvent, *event, std::make_shared<Event>());
  return code;
}

}  // namespace

int32_t CurrentDevice() {
  int32_t device = -1;
  if (Real().aclrtGetDevice(&device) != ACL_SUCCESS) DropMessage();
  return device;
}

void CheckStream(aclrtStream stream) { TheSession().objects.CheckHandle(stream); }

StreamName NameOf(aclrtStream stream) {
  if (stream != nullptr) {
    if (const auto facts = TheSession().objects.FactsOf<Stream>(stream)) return facts->name;
  }
  aclrtContext context = nullptr;
  if (Real().aclrtGetCurrentContext(&context) != ACL_SUCCESS) DropMessage();
  return {stream, context, CurrentDevice()};
}

aclError checked::aclrtSetDevice(int32_t deviceId) {
  const aclError code = Real().aclrtSetDevice(deviceId);
  if (code != ACL_SUCCESS) return code;
  const aclrtContext context = NameOf(nullptr).context;
  Session& session = TheSession();
  const std::lock_guard<std::mutex> lock(session.mutex);
  Session::DeviceUse& use = session.devices[deviceId];
  ++use.uses;
  use.default_context = context;
  return code;
}

aclError checked::aclrtResetDevice(int32_t deviceId) {
  Session& session = TheSession();
  Session::DeviceUse use{};
  {
    const std::lock_guard<std::mutex> lock(session.mutex);
    use = session.devices[deviceId];
  }
  const bool is_last = use.uses == 1;
  const auto ends = [&](const StreamName& name) { return name.context == use.default_context; };
  if (is_last) {
    ReleaseKept();
    if (session.objects.HasLive(kStream,
                                [&](const void* facts) { return ends(static_cast<const Stream*>(facts)->name); })) {
      Report("reset with live streams", "device " + std::to_string(deviceId) + "; in " + Origin::Here().Text());
    }
  }
  const aclError code = Real().aclrtResetDevice(deviceId);
  if (code != ACL_SUCCESS) return code;
  if (is_last) EndStreamsIf(ends);
  const std::lock_guard<std::mutex> lock(session.mutex);
  // Not below 0: a thread that uses the default device has not called aclrtSetDevice.
  int& uses = session.devices[deviceId].uses;
  uses = std::max(uses - 1, 0);
  return code;
}

aclError checked::aclrtResetDeviceForce(int32_t deviceId) {
  ReleaseKept();
  const aclError code = Real().aclrtResetDeviceForce(deviceId);
  if (code != ACL_SUCCESS) return code;
  const auto ends = [&](const StreamName& name) { return name.device == deviceId; };
  RetireStreamsIf(ends);
  TheSession().work.DropIf(ends);
  Session& session = TheSession();
  const std::lock_guard<std::mutex> lock(session.mutex);
  session.devices.erase(deviceId);
  return code;
}

aclError checked::aclrtDestroyContext(aclrtContext context) {
  const aclError code = Real().aclrtDestroyContext(context);
  if (code == ACL_SUCCESS) EndStreamsIf([&](const StreamName& name) { return name.context == context; });
  return code;
}

aclError checked::aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  const aclError code = Real().aclrtCtxSetSysParamOpt(opt, value);
  if (code != ACL_SUCCESS || opt != ACL_OPT_DETERMINISTIC) return code;
  Session& session = TheSession();
  const std::lock_guard<std::mutex> lock(session.mutex);
  const int64_t before = session.determinism.value_or(value);
  session.determinism = value;
  if (before != value) {
    Report("determinism changed", "from " + std::to_string(before) + " to " + std::to_string(value) +
                                      ", for every device of the process; in " + Origin::Here().Text());
  }
  return code;
}

aclError checked::aclrtCreateStream(aclrtStream* stream) {
  return NoteStream(Real().aclrtCreateStream(stream), stream);
}

aclError checked::aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  return NoteStream(Real().aclrtCreateStreamWithConfig(stream, priority, flag), stream);
}

aclError checked::aclrtDestroyStream(aclrtStream stream) {
  if (stream != nullptr && IsBusy(NameOf(stream))) {
    Report("destroyed while busy", "a stream; synchronise it before " + Origin::Here().Text());
  }
  const StreamName name = NameOf(stream);
  const aclError code = Destroy(Real().aclrtDestroyStream, stream);
  if (code == ACL_SUCCESS) TheSession().work.End(name, UINT64_MAX);
  return code;
}

aclError checked::aclrtDestroyStreamForce(aclrtStream stream) {
  const StreamName name = NameOf(stream);
  const aclError code = Destroy(Real().aclrtDestroyStreamForce, stream);
  if (code == ACL_SUCCESS) TheSession().work.DropIf([&](const StreamName& other) { return other == name; });
  return code;
}

aclError checked::aclrtSynchronizeStream(aclrtStream stream) {
  return Synchronize(stream, [&] { return Real().aclrtSynchronizeStream(stream); });
}

aclError checked::aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return Synchronize(stream, [&] { return Real().aclrtSynchronizeStreamWithTimeout(stream, timeout); });
}

aclError checked::aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  const StreamName name = NameOf(stream);
  const uint64_t begun = TheSession().work.begun();
  const aclError code = Real().aclrtStreamQuery(stream, status);
  if (code == ACL_SUCCESS && *status == ACL_STREAM_STATUS_COMPLETE) TheSession().work.End(name, begun);
  return code;
}

aclError checked::aclrtSynchronizeDevice() {
  return SynchronizeDevice([] { return Real().aclrtSynchronizeDevice(); });
}

aclError checked::aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  return SynchronizeDevice([&] { return Real().aclrtSynchronizeDeviceWithTimeout(timeout); });
}

aclError checked::aclrtCreateEvent(aclrtEvent* event) { return NoteEvent(Real().aclrtCreateEvent(event), event); }

aclError checked::aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return NoteEvent(Real().aclrtCreateEventWithFlag(event, flag), event);
}

aclError checked::aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return NoteEvent(Real().aclrtCreateEventExWithFlag(event, flag), event);
}

aclError checked::aclrtDestroyEvent(aclrtEvent event) { return Destroy(Real().aclrtDestroyEvent, event); }

aclError checked::aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  const uint64_t begun = TheSession().work.begun();
  const aclError code = Real().aclrtRecordEvent(event, stream);
  const auto facts = TheSession().objects.FactsOf<Event>(event);
  if (code != ACL_SUCCESS || facts == nullptr) return code;
  const std::lock_guard<std::mutex> lock(facts->mutex);
  facts->mark = {NameOf(stream), begun};
  return code;
}

aclError checked::aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  const Mark mark = MarkOf(event);
  const aclError code = Real().aclrtStreamWaitEvent(stream, event);
  if (code == ACL_SUCCESS && mark.number > 0) TheSession().work.BeginWait(NameOf(stream), mark);
  return code;
}

aclError checked::aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  const Mark mark = MarkOf(event);
  const aclError code = Real().aclrtQueryEventStatus(event, status);
  if (code == ACL_SUCCESS && *status == ACL_EVENT_RECORDED_STATUS_COMPLETE) {
    TheSession().work.End(mark.name, mark.number);
  }
  return code;
}

aclError checked::aclrtSynchronizeEvent(aclrtEvent event) {
  return SynchronizeEvent(event, [&] { return Real().aclrtSynchronizeEvent(event); });
}

aclError checked::aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  return SynchronizeEvent(event, [&] { return Real().aclrtSynchronizeEventWithTimeout(event, timeout); });
}

}  // namespace acl_strict
