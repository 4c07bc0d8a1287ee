"""Streams are asynchronous, in order, limited in number, and report timeouts and foreign handles."""

import ctypes
from collections.abc import Callable

import pytest

from tools.abi.acl import Library

INVALID_PARAM, RT_PARAM_INVALID, RT_INVALID_HANDLE, RT_NO_STREAM_RESOURCE, RT_STREAM_SYNC_TIMEOUT = (
    100000,
    107000,
    107017,
    207008,
    507046,
)
COMPLETE, NOT_READY = 0, 1
MAXIMUM = 1984

Busy = Callable[[object], None]


def query(acl: Library, stream: object) -> int:
    status = ctypes.c_int(-1)
    acl.call("aclrtStreamQuery", stream, ctypes.byref(status))
    return status.value


def test_enqueueing_does_not_wait(acl: Library, busy: Busy) -> None:
    with acl.stream() as stream:
        assert query(acl, stream) == COMPLETE
        busy(stream)
        assert query(acl, stream) == NOT_READY
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, 0) == RT_STREAM_SYNC_TIMEOUT
        assert acl.says("0 ms")
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, 1) == RT_STREAM_SYNC_TIMEOUT
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, -1) == 0
        assert query(acl, stream) == COMPLETE
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, 0) == 0


def test_the_null_stream_is_a_stream_too(acl: Library, busy: Busy) -> None:
    busy(None)
    assert query(acl, None) == NOT_READY
    assert acl.aclrtSynchronizeDeviceWithTimeout(0) == RT_STREAM_SYNC_TIMEOUT
    assert acl.aclrtSynchronizeDevice() == 0
    assert query(acl, None) == COMPLETE
    assert acl.aclrtDestroyStream(None) == INVALID_PARAM


def test_tasks_run_in_order(acl: Library) -> None:
    count = 200
    with acl.stream() as stream, acl.buffer(count) as address:
        for value in range(count):
            acl.call("aclrtMemsetAsync", address + value, count - value, value, count - value, stream)
        acl.call("aclrtSynchronizeStream", stream)
        result = (ctypes.c_uint8 * count)()
        acl.call("aclrtMemcpy", result, count, address, count, 2)
        assert list(result) == list(range(count))


@pytest.mark.needs("nulls")
def test_destroy_waits_and_force_drops(acl: Library, busy: Busy) -> None:
    stream = acl.create("aclrtCreateStream")
    with acl.event() as event:
        busy(stream)
        acl.call("aclrtRecordEvent", event, stream)
        acl.call("aclrtDestroyStream", stream)
        status = ctypes.c_int(-1)
        acl.call("aclrtQueryEventStatus", event, ctypes.byref(status))
        assert status.value == 1
    assert acl.aclrtDestroyStream(stream) == RT_INVALID_HANDLE

    size = 16
    stream = acl.create("aclrtCreateStream")
    with acl.buffer(size) as address:
        acl.call("aclrtMemset", address, size, 7, size)
        busy(stream)
        acl.call("aclrtMemsetAsync", address, size, 1, size, stream)
        acl.call("aclrtDestroyStreamForce", stream)
        result = (ctypes.c_uint8 * size)()
        acl.call("aclrtMemcpy", result, size, address, size, 2)
        assert list(result) == [7] * size


def test_a_dropped_record_releases_those_who_wait(acl: Library, busy: Busy) -> None:
    first = acl.create("aclrtCreateStream")
    with acl.stream() as second, acl.event() as event:
        busy(first)
        acl.call("aclrtRecordEvent", event, first)
        acl.call("aclrtStreamWaitEvent", second, event)
        acl.call("aclrtDestroyStreamForce", first)
        assert acl.aclrtSynchronizeStream(second) == 0


@pytest.mark.needs("nulls")
def test_parameters(acl: Library) -> None:
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
