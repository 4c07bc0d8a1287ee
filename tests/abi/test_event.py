"""Events order streams, can be waited for and timed."""

import ctypes
from collections.abc import Callable

import numpy as np

from tools.abi.acl import Library

INVALID_PARAM, RT_PARAM_INVALID, RT_INVALID_HANDLE = 100000, 107000, 107017
TIMESTAMP_INVALID, TIMESTAMP_REVERSAL = 107006, 107007
RT_INTERNAL_ERROR, RT_EVENT_SYNC_TIMEOUT = 507000, 507047
NOT_READY, COMPLETE = 0, 1

Busy = Callable[[object], None]


def query(acl: Library, event: object) -> int:
    status = ctypes.c_int(-1)
    acl.call("aclrtQueryEventStatus", event, ctypes.byref(status))
    return status.value


def elapsed(acl: Library, start: object, end: object) -> tuple[int, float]:
    milliseconds = ctypes.c_float(-1)
    return acl.aclrtEventElapsedTime(ctypes.byref(milliseconds), start, end), milliseconds.value


def test_an_event_completes_after_the_work_before_it(acl: Library, busy: Busy) -> None:
    with acl.stream() as stream, acl.event() as event:
        assert query(acl, event) == NOT_READY
        busy(stream)
        acl.call("aclrtRecordEvent", event, stream)
        assert query(acl, event) == NOT_READY
        assert acl.aclrtSynchronizeEventWithTimeout(event, 0) == RT_EVENT_SYNC_TIMEOUT
        assert acl.aclrtSynchronizeEventWithTimeout(event, 1) == RT_EVENT_SYNC_TIMEOUT
        assert acl.aclrtSynchronizeEvent(event) == 0
        assert query(acl, event) == COMPLETE
        assert acl.aclrtSynchronizeEventWithTimeout(event, 0) == 0


def test_a_stream_waits_for_an_event_of_another(acl: Library, busy: Busy) -> None:
    size = 1 << 20
    with acl.stream() as first, acl.stream() as second, acl.event() as event, acl.buffer(size) as address:
        acl.call("aclrtMemset", address, size, 0, size)
        busy(first)
        acl.call("aclrtMemsetAsync", address, size, 1, size, first)
        acl.call("aclrtRecordEvent", event, first)
        acl.call("aclrtStreamWaitEvent", second, event)
        acl.call("aclrtMemsetAsync", address, size, 2, size, second)
        acl.call("aclrtSynchronizeStream", second)
        assert (acl.download(address, np.empty(size, np.uint8)) == 2).all()


def test_recording_again_neither_holds_nor_releases_earlier_waiters(acl: Library, busy: Busy) -> None:
    with acl.stream() as first, acl.stream() as second, acl.stream() as waiting, acl.event() as event:
        busy(first)
        acl.call("aclrtRecordEvent", event, first)
        acl.call("aclrtStreamWaitEvent", waiting, event)
        acl.call("aclrtRecordEvent", event, second)
        acl.call("aclrtSynchronizeEvent", event)
        assert acl.aclrtSynchronizeStreamWithTimeout(waiting, 0) == 507046
        acl.call("aclrtSynchronizeStream", waiting)


def test_reset_forgets_the_recording(acl: Library) -> None:
    with acl.stream() as stream, acl.event() as event:
        acl.call("aclrtRecordEvent", event, stream)
        acl.call("aclrtSynchronizeStream", stream)
        assert query(acl, event) == COMPLETE
        acl.call("aclrtResetEvent", event, stream)
        acl.call("aclrtSynchronizeStream", stream)
        assert query(acl, event) == NOT_READY


def test_elapsed_time(acl: Library, busy: Busy) -> None:
    with acl.stream() as stream, acl.event() as start, acl.event() as end:
        assert elapsed(acl, start, end)[0] == RT_INTERNAL_ERROR
        acl.call("aclrtRecordEvent", start, stream)
        busy(stream)
        acl.call("aclrtRecordEvent", end, stream)
        assert elapsed(acl, start, end)[0] == TIMESTAMP_INVALID
        acl.call("aclrtSynchronizeStream", stream)
        code, milliseconds = elapsed(acl, start, end)
        assert code == 0
        assert milliseconds > 0
        assert elapsed(acl, end, start)[0] == TIMESTAMP_REVERSAL
        assert acl.aclrtEventElapsedTime(None, start, end) == INVALID_PARAM


def test_only_timed_events_have_a_time(acl: Library) -> None:
    untimed = acl.create("aclrtCreateEventWithFlag", 0x1)
    acl.call("aclrtRecordEvent", untimed, None)
    acl.call("aclrtSynchronizeStream", None)
    assert elapsed(acl, untimed, untimed)[0] == TIMESTAMP_INVALID
    acl.call("aclrtDestroyEvent", untimed)
    timed = acl.create("aclrtCreateEventWithFlag", 0x8)
    acl.call("aclrtRecordEvent", timed, None)
    acl.call("aclrtSynchronizeStream", None)
    assert elapsed(acl, timed, timed) == (0, 0.0)
    acl.call("aclrtDestroyEvent", timed)


def test_parameters(acl: Library) -> None:
    handle = ctypes.c_void_p()
    assert acl.aclrtCreateEvent(None) == INVALID_PARAM
    assert acl.aclrtCreateEventWithFlag(ctypes.byref(handle), 0) == RT_PARAM_INVALID
    assert acl.aclrtCreateEventWithFlag(ctypes.byref(handle), 0x40) == RT_PARAM_INVALID
    event = acl.create("aclrtCreateEvent")
    assert acl.aclrtSynchronizeEvent(event) == 0
    assert acl.aclrtStreamWaitEvent(None, event) == RT_INTERNAL_ERROR
    assert acl.aclrtSynchronizeEventWithTimeout(event, -2) == RT_PARAM_INVALID
    assert acl.aclrtRecordEvent(event, 0x1234567) == RT_INVALID_HANDLE
    assert acl.aclrtQueryEventStatus(event, None) == INVALID_PARAM
    assert acl.aclrtDestroyEvent(event) == 0
    assert acl.aclrtDestroyEvent(event) == RT_INVALID_HANDLE
    assert acl.aclrtRecordEvent(event, None) == RT_INVALID_HANDLE
    assert acl.aclrtSynchronizeEvent(event) == RT_INVALID_HANDLE
