"""Streams are asynchronous, in order and limited in number; events order them, can be waited for and timed."""

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tools.abi.acl import Library

INVALID_PARAM, RT_PARAM_INVALID, RT_INVALID_HANDLE, RT_NO_STREAM_RESOURCE = 100000, 107000, 107017, 207008
TIMESTAMP_INVALID, TIMESTAMP_REVERSAL = 107006, 107007
RT_INTERNAL_ERROR, RT_STREAM_SYNC_TIMEOUT, RT_EVENT_SYNC_TIMEOUT = 507000, 507046, 507047
STREAM_COMPLETE, STREAM_NOT_READY = 0, 1
EVENT_NOT_READY, EVENT_COMPLETE = 0, 1
MAXIMUM = 1984
THREADS = 8

Busy = Callable[[object], None]


def stream_state(acl: Library, stream: object) -> int:
    status = ctypes.c_int(-1)
    acl.call("aclrtStreamQuery", stream, ctypes.byref(status))
    return status.value


def event_state(acl: Library, event: object) -> int:
    status = ctypes.c_int(-1)
    acl.call("aclrtQueryEventStatus", event, ctypes.byref(status))
    return status.value


def test_enqueueing_does_not_wait(acl: Library, busy: Busy) -> None:
    with acl.stream() as stream:
        assert stream_state(acl, stream) == STREAM_COMPLETE
        busy(stream)
        assert stream_state(acl, stream) == STREAM_NOT_READY
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, 0) == RT_STREAM_SYNC_TIMEOUT
        assert acl.says("0 ms")
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, 1) == RT_STREAM_SYNC_TIMEOUT
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, -1) == 0
        assert stream_state(acl, stream) == STREAM_COMPLETE
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, 0) == 0


def test_the_null_stream_is_a_stream_too(acl: Library, busy: Busy) -> None:
    busy(None)
    assert stream_state(acl, None) == STREAM_NOT_READY
    assert acl.aclrtSynchronizeDeviceWithTimeout(0) == RT_STREAM_SYNC_TIMEOUT
    assert acl.aclrtSynchronizeDevice() == 0
    assert stream_state(acl, None) == STREAM_COMPLETE
    assert acl.aclrtDestroyStream(None) == INVALID_PARAM


def test_tasks_run_in_order(acl: Library) -> None:
    count = 200
    with acl.stream() as stream, acl.buffer(count) as address:
        for value in range(count):
            acl.call("aclrtMemsetAsync", address + value, count - value, value, count - value, stream)
        acl.call("aclrtSynchronizeStream", stream)
        assert (acl.download(address, np.zeros(count, np.uint8)) == np.arange(count)).all()


@pytest.mark.needs("nulls")
def test_destroy_waits_and_force_drops(acl: Library, busy: Busy) -> None:
    stream = acl.create("aclrtCreateStream")
    with acl.event() as event:
        busy(stream)
        acl.call("aclrtRecordEvent", event, stream)
        acl.call("aclrtDestroyStream", stream)
        assert event_state(acl, event) == EVENT_COMPLETE
    assert acl.aclrtDestroyStream(stream) == RT_INVALID_HANDLE

    size = 16
    stream = acl.create("aclrtCreateStream")
    with acl.buffer(size) as address:
        acl.call("aclrtMemset", address, size, 7, size)
        busy(stream)
        acl.call("aclrtMemsetAsync", address, size, 1, size, stream)
        acl.call("aclrtDestroyStreamForce", stream)
        assert (acl.download(address, np.zeros(size, np.uint8)) == 7).all()


def test_a_dropped_record_releases_those_who_wait(acl: Library, busy: Busy) -> None:
    first = acl.create("aclrtCreateStream")
    with acl.stream() as second, acl.event() as event:
        busy(first)
        acl.call("aclrtRecordEvent", event, first)
        acl.call("aclrtStreamWaitEvent", second, event)
        acl.call("aclrtDestroyStreamForce", first)
        assert acl.aclrtSynchronizeStream(second) == 0


@pytest.mark.needs("nulls")
def test_parameters_of_streams(acl: Library) -> None:
    handle = ctypes.c_void_p()
    assert acl.aclrtCreateStream(None) == INVALID_PARAM
    assert acl.aclrtCreateStreamWithConfig(ctypes.byref(handle), 0, 0x3) == 0
    assert acl.aclrtStreamQuery(handle, None) == INVALID_PARAM
    assert acl.aclrtSynchronizeStreamWithTimeout(handle, -2) == RT_PARAM_INVALID
    assert acl.aclrtDestroyStream(handle) == 0
    assert acl.aclrtCreateStreamWithConfig(ctypes.byref(handle), 0, 0x4) == RT_PARAM_INVALID
    assert acl.aclrtSynchronizeStream(0x1234567) == RT_INVALID_HANDLE


@pytest.mark.needs("exact limits")
def test_the_number_of_streams_is_limited(run_program: Callable[..., list[str]]) -> None:
    # In its own process, where no other streams count.
    lines = run_program(
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "streams, handle, code = [], ctypes.c_void_p(), 0\n"
        "while code == 0:\n"
        "    code = acl.aclrtCreateStream(ctypes.byref(handle))\n"
        "    streams += [handle.value] if code == 0 else []\n"
        "print(len(streams), code)\n"
        "print(acl.message())\n"
        "acl.call('aclrtDestroyStream', streams[0])\n"
        "print(acl.aclrtCreateStream(ctypes.byref(handle)))\n"
    )
    assert lines[0] == f"{MAXIMUM - 1} {RT_NO_STREAM_RESOURCE}"  # the default stream counts
    assert str(MAXIMUM) in lines[1]
    assert lines[2] == "0"


def elapsed(acl: Library, start: object, end: object) -> tuple[int, float]:
    milliseconds = ctypes.c_float(-1)
    return acl.aclrtEventElapsedTime(ctypes.byref(milliseconds), start, end), milliseconds.value


def test_an_event_completes_after_the_work_before_it(acl: Library, busy: Busy) -> None:
    with acl.stream() as stream, acl.event() as event:
        assert event_state(acl, event) == EVENT_NOT_READY
        busy(stream)
        acl.call("aclrtRecordEvent", event, stream)
        assert event_state(acl, event) == EVENT_NOT_READY
        assert acl.aclrtSynchronizeEventWithTimeout(event, 0) == RT_EVENT_SYNC_TIMEOUT
        assert acl.aclrtSynchronizeEventWithTimeout(event, 1) == RT_EVENT_SYNC_TIMEOUT
        assert acl.aclrtSynchronizeEvent(event) == 0
        assert event_state(acl, event) == EVENT_COMPLETE
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
        assert acl.aclrtSynchronizeStreamWithTimeout(waiting, 0) == RT_STREAM_SYNC_TIMEOUT
        acl.call("aclrtSynchronizeStream", waiting)


def test_reset_forgets_the_recording(acl: Library) -> None:
    with acl.stream() as stream, acl.event() as event:
        acl.call("aclrtRecordEvent", event, stream)
        acl.call("aclrtSynchronizeStream", stream)
        assert event_state(acl, event) == EVENT_COMPLETE
        acl.call("aclrtResetEvent", event, stream)
        acl.call("aclrtSynchronizeStream", stream)
        assert event_state(acl, event) == EVENT_NOT_READY


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


def test_parameters_of_events(acl: Library) -> None:
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


def everywhere(work: Callable[[int], None]) -> None:
    """Runs work in several threads at once and raises the exception of one of them."""
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(work, range(THREADS)))


def test_handles_come_and_go(acl: Library) -> None:
    shared = acl.create("aclrtCreateEvent")

    def work(number: int) -> None:
        acl.call("aclrtSetDevice", 0)
        for size in range(1, 50):
            with acl.stream() as stream, acl.event() as event, acl.buffer(size) as address:
                acl.call("aclrtMemsetAsync", address, size, number, size, stream)
                acl.call("aclrtRecordEvent", event, stream)
                acl.call("aclrtRecordEvent", shared, stream)
                acl.call("aclrtStreamWaitEvent", stream, shared)
                acl.call("aclrtSynchronizeEvent", event)
                assert set(acl.download(address, np.zeros(size, np.uint8))) == {number}
        acl.call("aclrtResetDevice", 0)

    everywhere(work)
    acl.call("aclrtDestroyEvent", shared)


def test_one_of_many_destroys_a_handle(acl: Library) -> None:
    for create, destroy in (("aclrtCreateStream", "aclrtDestroyStream"), ("aclrtCreateEvent", "aclrtDestroyEvent")):
        handle = acl.create(create)
        codes = []

        def work(_: int, name: str = destroy, target: ctypes.c_void_p = handle, results: list[int] = codes) -> None:
            acl.call("aclrtSetDevice", 0)
            results.append(getattr(acl, name)(target))
            acl.call("aclrtResetDevice", 0)

        everywhere(work)
        assert sorted(codes) == [0] + [RT_INVALID_HANDLE] * (THREADS - 1)
