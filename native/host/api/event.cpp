// The ABI: events.
#include "device/event.h"

#include <chrono>
#include <string>

#include "api.h"
#include "device/runtime.h"
#include "device/wait.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"

namespace acl_host {
namespace {

constexpr int32_t kDropCheckMs = 5;
constexpr uint32_t kFlags =
    ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | ACL_EVENT_EXTERNAL;

aclrtEvent Handle(aclrtEvent event) {
  CheckNotNull(event, "event");
  return event;
}

// An event that was never recorded is an internal error in CANN, not an invalid parameter.
std::shared_ptr<Recording> RecordingOf(const Event& event) {
  auto recording = event.latest();
  if (!recording) throw Error(ACL_ERROR_RT_INTERNAL_ERROR, "the event was never recorded");
  return recording;
}

Clock::time_point CompletionTime(aclrtEvent handle) {
  const auto event = Runtime::Current()->events().Find(Handle(handle));
  const auto recording = RecordingOf(*event);
  if (!event->timed() || !recording->IsComplete()) {
    throw Error(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                event->timed() ? "the event is not complete yet" : "the event was created without ACL_EVENT_TIME_LINE");
  }
  return recording->CompletedAt();
}

}  // namespace

void api::aclrtCreateEvent(aclrtEvent* event) {
  api::aclrtCreateEventWithFlag(event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
}

void api::aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  aclrtEvent& handle = Required(event, "event");
  if (flag == 0 || (flag & ~kFlags) != 0) {
    throw Error(ACL_ERROR_RT_PARAM_INVALID, "there is no event flag " + std::to_string(flag));
  }
  const auto runtime = Runtime::Current();
  (void)runtime->CurrentContext();
  const size_t limit = FactsOf(runtime->product()).event_limit;
  if (runtime->events().size() >= limit) {
    throw Error(ACL_ERROR_RT_NO_EVENT_RESOURCE, "all " + std::to_string(limit) + " events are in use");
  }
  handle = runtime->events().Add(std::make_shared<Event>((flag & ACL_EVENT_TIME_LINE) != 0));
}

void api::aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) { api::aclrtCreateEventWithFlag(event, flag); }

void api::aclrtDestroyEvent(aclrtEvent event) {
  const auto runtime = Runtime::Current();
  (void)runtime->events().Find(Handle(event));
  if (!runtime->events().Remove(event)) {
    throw Error(ACL_ERROR_RT_INVALID_HANDLE, "the event is being destroyed already");
  }
}

void api::aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  const auto runtime = Runtime::Current();
  const auto target = runtime->events().Find(Handle(event));
  target->Record(*runtime->FindStream(stream));
}

void api::aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  const auto runtime = Runtime::Current();
  const auto target = runtime->events().Find(Handle(event));
  Event::Reset(target, *runtime->FindStream(stream));
}

void api::aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  const auto runtime = Runtime::Current();
  const auto recording = RecordingOf(*runtime->events().Find(Handle(event)));
  const auto waiting = runtime->FindStream(stream);
  waiting->Enqueue([recording, &owner = *waiting] {
    // In short waits, because a stream that is destroyed by force must stop waiting.
    while (!recording->Wait(DeadlineAfter(kDropCheckMs)) && !owner.IsDropping()) {
    }
  });
}

void api::aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  aclrtEventRecordedStatus& result = Required(status, "status");
  const auto recording = Runtime::Current()->events().Find(Handle(event))->latest();
  const bool complete = recording && recording->IsComplete();
  result = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
}

void api::aclrtSynchronizeEvent(aclrtEvent event) { api::aclrtSynchronizeEventWithTimeout(event, -1); }

void api::aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  const auto deadline = DeadlineAfter(timeout);
  const auto runtime = Runtime::Current();
  const auto recording = runtime->events().Find(Handle(event))->latest();
  if (recording && !recording->Wait(deadline)) {
    throw Error(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "the event was not complete after " + std::to_string(timeout) + " ms");
  }
  if (recording) recording->device().CheckUsable();
}

void api::aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  float& result = Required(ms, "ms");
  const auto start = CompletionTime(startEvent);
  const auto end = CompletionTime(endEvent);
  if (end < start) throw Error(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "the end event is earlier than the start event");
  result = std::chrono::duration<float, std::milli>(end - start).count();
}

}  // namespace acl_host
