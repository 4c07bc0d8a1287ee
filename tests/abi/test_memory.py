"""Device memory, pinned memory and copies."""

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tools.abi.acl import Library

INVALID_PARAM, RT_PARAM_INVALID, RT_MEMORY_ALLOCATION = 100000, 107000, 207001
HBM, HBM_NORMAL, DDR = 1, 5, 0

Busy = Callable[[object], None]


def memory_info(acl: Library, attribute: int = HBM) -> tuple[int, int]:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    acl.call("aclrtGetMemInfo", attribute, ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


@pytest.mark.needs("exact limits")
@pytest.mark.parametrize("size", [1, 31, 32, 33, 4096, 3 << 20])
@pytest.mark.parametrize(("function", "padding"), [("aclrtMalloc", 32), ("aclrtMallocAlign32", 0)])
def test_allocation_is_aligned_and_counted(acl: Library, function: str, padding: int, size: int) -> None:
    free, total = memory_info(acl)
    address = acl.create(function, size, 0)
    assert address.value % 64 == 0
    assert memory_info(acl) == (free - (size + 31) // 32 * 32 - padding, total)
    acl.call("aclrtFree", address)
    assert memory_info(acl) == (free, total)


@pytest.mark.needs("exact limits")
def test_kinds_of_memory(acl: Library) -> None:
    assert memory_info(acl, HBM_NORMAL) == memory_info(acl, HBM)
    assert memory_info(acl, DDR) == (0, 0)
    assert acl.aclrtGetMemInfo(HBM, None, None) == INVALID_PARAM


@pytest.mark.needs("nulls")
def test_bad_allocations_and_frees(acl: Library) -> None:
    address = ctypes.c_void_p()
    assert acl.aclrtMalloc(ctypes.byref(address), 0, 0) == INVALID_PARAM
    assert acl.says("size")
    assert acl.aclrtMalloc(None, 8, 0) == INVALID_PARAM
    assert acl.aclrtMallocHost(ctypes.byref(address), 0) == INVALID_PARAM
    assert acl.aclrtMalloc(ctypes.byref(address), 2**64 - 1, 0) == RT_MEMORY_ALLOCATION
    assert acl.aclrtMalloc(ctypes.byref(address), 2**63, 0) == RT_MEMORY_ALLOCATION
    assert acl.aclrtMallocHost(ctypes.byref(address), 2**64 - 1) == RT_MEMORY_ALLOCATION
    assert acl.aclrtFree(None) == INVALID_PARAM
    assert acl.aclrtFree(0x1234567) == RT_PARAM_INVALID
    assert acl.aclrtFreeHost(None) == INVALID_PARAM
    device, pinned = acl.create("aclrtMalloc", 64, 0), acl.create("aclrtMallocHost", 64)
    assert pinned.value % 64 == 0
    assert acl.aclrtFreeHost(device) == RT_PARAM_INVALID
    assert acl.aclrtFree(pinned) == RT_PARAM_INVALID
    assert acl.aclrtFree(device.value + 32) == RT_PARAM_INVALID
    acl.call("aclrtFree", device)
    acl.call("aclrtFreeHost", pinned)
    assert acl.aclrtFree(device) == RT_PARAM_INVALID


@pytest.mark.needs("settings")
def test_the_limit_and_its_message(run_program: Callable[..., list[str]], tmp_path: Path) -> None:
    path = tmp_path / "acl.json"
    path.write_text('{"host": {"memory_bytes": 4096, "devices": 2}}')
    lines = run_program(
        f"acl.call('aclInit', {str(path).encode()!r})\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "first, second = acl.create('aclrtMalloc', 2000, 0), ctypes.c_void_p()\n"
        "print(acl.aclrtMalloc(ctypes.byref(second), 3000, 0))\n"
        "print(acl.message())\n"
        "print(acl.aclrtMallocAlign32(ctypes.byref(second), 4096 - 2048, 0))\n"
        "acl.call('aclrtSetDevice', 1)\n"
        "print(acl.aclrtMallocAlign32(ctypes.byref(second), 4096, 0), acl.aclrtFree(first))\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "print(acl.aclrtMallocAlign32(ctypes.byref(second), 2048, 0))\n"
    )
    assert [lines[0], *lines[2:]] == ["207001", "0", "0 0", "0"]
    for figure in ("3040", "2048", "4096"):  # asked, in use, limit
        assert figure in lines[1]


@pytest.mark.parametrize("start", [0, 1, 3])
def test_copies_start_at_any_byte(acl: Library, start: int) -> None:
    source = np.arange(256, dtype=np.uint8)
    target = np.zeros(256, np.uint8)
    with acl.buffer(300) as first, acl.buffer(300) as second:
        count = 256 - start
        acl.call("aclrtMemcpy", first + start, count, source.ctypes.data + start, count, 1)
        acl.call("aclrtMemcpy", second + 7, count, first + start, count, 3)
        acl.call("aclrtMemcpy", target.ctypes.data + start, count, second + 7, count, 2)
    assert (target[start:] == source[start:]).all()


@pytest.mark.needs("nulls")
def test_bad_copies(acl: Library) -> None:
    host = (ctypes.c_uint8 * 64)()
    with acl.buffer(64) as address:
        for function, stream in (("aclrtMemcpy", ()), ("aclrtMemcpyAsync", (None,))):
            copy = getattr(acl, function)
            assert copy(address, 64, host, 65, 1, *stream) == RT_PARAM_INVALID
            message = acl.message()
            assert "65" in message
            assert "64" in message
            assert copy(None, 64, host, 64, 1, *stream) == INVALID_PARAM
            assert acl.says("dst")
            assert copy(address, 64, None, 64, 1, *stream) == INVALID_PARAM
            assert acl.says("src")
            assert copy(address, 64, host, 0, 1, *stream) == 0
            assert copy(None, 0, None, 0, 1, *stream) == 0
            assert copy(address, 64, host, 64, 99, *stream) == INVALID_PARAM
        assert acl.aclrtMemset(address, 64, 1, 65) == RT_PARAM_INVALID
        assert acl.aclrtMemset(None, 64, 1, 64) == INVALID_PARAM
        assert acl.aclrtMemsetAsync(address, 64, 1, 65, None) == RT_PARAM_INVALID


def test_a_blocking_copy_does_not_wait_for_streams(acl: Library, busy: Busy) -> None:
    host = (ctypes.c_uint8 * 64)()
    with acl.stream() as stream, acl.buffer(64) as address:
        busy(stream)
        acl.call("aclrtMemcpy", address, 64, host, 64, 1)
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, 0) != 0


def test_copies_of_pinned_memory_are_asynchronous_and_of_pageable_memory_are_not(acl: Library, busy: Busy) -> None:
    size = 4096
    pinned = acl.create("aclrtMallocHost", size)
    ctypes.memset(pinned, 5, size)
    with acl.stream() as stream, acl.buffer(size) as address:
        busy(stream)
        acl.call("aclrtMemcpyAsync", address, size, pinned, size, 1, stream)
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, 0) != 0
        # In stream order: after the copy above, and complete when the call returns.
        result = np.zeros(size, np.uint8)
        acl.call("aclrtMemcpyAsync", result.ctypes.data, size, address, size, 2, stream)
        assert (result == 5).all()
        acl.call("aclrtSynchronizeStream", stream)
    acl.call("aclrtFreeHost", pinned)
