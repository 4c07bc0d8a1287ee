"""Devices that close while there is work: every ticket is returned once, nothing leaks, and there is no deadlock."""

import gc
import sys
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

from aclgrad_native import AclError
from tools.calling import wait_until

from .blocking import BlockingDevice, BlockingTensor, alone, deadline
from .forked import CALL, CONTENTS, KERNEL_WAIT, LAUNCH, hang, open_device, open_library, outcome, steer
from .forks import in_fork
from .pooling import plan, pool

LEFT: dict[str, Any] = {}
"""What the interpreter forgets at its end."""


def open_narrow() -> BlockingDevice:
    """Returns a device with one stream and one thread that copies."""
    return open_device(steered=True, stream_limit=1, copy_threads=1)


def submit_staged(device: BlockingDevice, source: BlockingTensor, target: BlockingTensor, timeout_s: float) -> int:
    side = 1024 if source.native.size_bytes > 4 else 0
    call = plan((1, side, side), (1, side, side)) if side else CALL
    step = alone(call, [source.native, None], sinks=[(target.native, False)])
    return device.submit_group([step], timeout_s=timeout_s)[0]


@in_fork(faults=[hang()])
def test_calls_that_have_not_begun_end_with_an_error() -> None:
    """The one under way ends well. Nothing keeps the inputs of the others."""
    device = open_narrow()
    waiting, seen, tickets = device.waiting, [], []
    for _ in range(6):
        data = np.ones((1, 1, 1), np.float32)
        seen.append(weakref.ref(data))
        tickets.append(device.submit(CALL, [data, None]))
    tickets.append(device.submit_group([alone(CALL, CONTENTS)] * 3)[0])
    tickets.append(device.submit(CALL, CONTENTS))
    wait_until(lambda: device.state().leased_stream_count)
    del data, device.native
    gc.collect()
    ends = [waiting.end(ticket) for ticket in tickets]
    assert len(ends[0]) == 16
    assert {(type(end), str(end)) for end in ends[1:]} == {(RuntimeError, "the device is closed")}
    assert (waiting.completions.drain(), [each() for each in seen]) == ([], [None] * 6)


@pytest.mark.parametrize("host_pointers", [True, False])
@in_fork()
def test_tensors_may_be_the_last_to_have_the_device(host_pointers: bool) -> None:
    device = open_narrow()
    waiting = device.waiting
    (tensor,) = device.stage(100)
    (released,) = device.released
    native = device.native
    del device.native
    gc.collect()
    # The one thread that releases is busy meanwhile, so the device closes first.
    joined = waiting.new_ticket()
    native.join(joined, [bytes(100 << 20)])
    del native
    del tensor
    waiting.end(joined)
    assert (waiting.end(released), waiting.completions.drain()) == (None, [])
    assert open_device().state().pool.allocated_bytes == 0


@pytest.mark.parametrize("host_pointers", [True, False])
@in_fork(faults=[hang()])
def test_work_on_tensors_keeps_the_device(host_pointers: bool) -> None:
    device = open_narrow()
    waiting, size = device.waiting, 4 << 20
    (source,), (target,) = device.stage(size), device.stage(size)
    written, read = waiting.new_ticket(), waiting.new_ticket()
    device.native.write(written, [(source.native, 0, bytes(size))], deadline(60))
    called = submit_staged(device, source, target, 60)
    device.native.read(read, [(target.native, 0, b"", 10)], deadline(60))
    del source, target, device.native
    gc.collect()
    assert [type(waiting.end(ticket)) for ticket in (written, called, read)] == [type(None), tuple, list]
    assert [waiting.end(ticket) for ticket in device.released] == [None, None]
    assert waiting.completions.drain() == []


@pytest.mark.parametrize("host_pointers", [True, False])
@in_fork(faults=[hang()])
def test_an_abandoned_call_may_be_the_last_to_have_the_device(host_pointers: bool) -> None:
    """The device's own thread finds that the call has ended, and cannot wait for itself."""
    device = open_narrow()
    waiting = device.waiting
    (source,), (target,) = device.stage(4), device.stage(16)
    source.write(0, b"grad")
    assert waiting.end(submit_staged(device, source, target, 0.1))[1][0].fault == "timeout"
    del source, target
    wait_until(steer.IsDone)
    looked = waiting.new_ticket()
    native = device.native
    del device.native
    native.release_finished(looked)
    del native
    assert [waiting.end(ticket) for ticket in (looked, *device.released)] == [None] * 3
    assert waiting.completions.drain() == []


def release_when_hanging(name: bytes) -> threading.Thread:
    """Ends what hangs, soon after the main thread waits for it without the interpreter's lock."""

    def run() -> None:
        wait_until(lambda: steer.Hanging(name))
        time.sleep(0.1)
        steer.Release()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize("last", ["kernel", "library", "device"])
@in_fork()
def test_the_runtime_ends_without_the_interpreters_lock(last: str) -> None:
    """Also if its device could not be opened: the driver takes its time until another thread of Python ends it."""
    library = open_library(steered=True)
    device = BlockingDevice(library, stream_limit=1) if last != "library" else None
    if device is None:
        assert outcome(BlockingDevice, library, 1000) == "internal aclrtSetDevice"
    elif last == "kernel":
        # Its thread has begun then: one that has not when the device is closed takes no work any more.
        device.execute(CALL, CONTENTS)
    function = LAUNCH if last == "kernel" else b"aclFinalizeReference"
    steer.Hang(function, 1, False)
    ticket = device.submit(CALL, CONTENTS) if device and last == "kernel" else None
    thread = release_when_hanging(function)
    del library
    if device is not None:
        del device.native
    thread.join()
    assert steer.Calls(b"aclFinalizeReference") == 1
    if device and ticket is not None:
        assert len(device.waiting.end(ticket)) == 16


@pytest.mark.parametrize("forget", ["nothing", "device", "waiting", "all"])
@pytest.mark.parametrize("timeout_s", [60, 0.1], ids=["work", "late"])
@in_fork(faults=[hang()])
def test_the_interpreter_ends_while_there_is_work(forget: str, timeout_s: float) -> None:
    """Or while late kernels run."""
    LEFT.update(device=open_narrow())
    LEFT.update(waiting=LEFT["device"].waiting, kept=LEFT["device"].stage(4), target=LEFT["device"].stage(16))
    device, waiting = LEFT["device"], LEFT["waiting"]
    for _ in range(3):
        device.submit(CALL, CONTENTS, timeout_s)
        device.native.write(waiting.new_ticket(), [(LEFT["kept"][0].native, 0, b"x")], deadline(60))
        device.native.stage(waiting.new_ticket(), waiting.new_ticket(), [(10, False)], deadline(60))
    submit_staged(device, LEFT["kept"][0], LEFT["target"][0], timeout_s)
    if forget == "waiting":
        device.waiting = None
    elif forget == "all":
        LEFT.clear()
    else:
        LEFT.pop(forget, None)
    sys.exit()


@in_fork()
def test_a_device_whose_threads_the_system_refuses_is_not_opened() -> None:
    device = open_narrow()
    steer.Refuse(20, 1000)
    with pytest.raises(BlockingIOError):
        open_device(stream_limit=64)
    assert steer.Refused() > 0
    assert len(device.execute(CALL, CONTENTS)) == 16


@in_fork()
def test_a_thread_that_ran_calls_destroys_the_executors() -> None:
    """What the library keeps of them in that thread is still there."""
    device = open_device(steered=True, stream_limit=1, executor_limit=8)
    for width in range(1, 6):
        pool(device, np.ones((1, 1, 1), np.float32), (1, 2, width))
    assert device.state().executors.entry_count == 5
    del device
    gc.collect()
    assert (steer.Calls(b"aclDestroyAclOpExecutor"), steer.Strangers()) == (5, 0)


@in_fork()
def test_a_device_that_cannot_be_opened_is_reset() -> None:
    steer.Fail(b"aclrtCtxSetSysParamOpt", 107000, 1)
    with pytest.raises(AclError, match="aclrtCtxSetSysParamOpt"):
        open_device(steered=True)
    assert steer.Calls(b"aclrtSetDevice") == steer.Calls(b"aclrtResetDevice")


@pytest.mark.slow
@in_fork(faults=[{"kind": "hang", "at": 1, "count": 4}])
def test_closing_beside_a_kernel_that_hangs_ends() -> None:
    """A card's reset waits for all kernels."""
    device = open_device(steered=True, stream_limit=4)
    steer.Hang(b"aclrtResetDevice", 1, False)
    for _ in range(4):
        assert outcome(device.execute, CALL, CONTENTS, 0.1) == f"timeout {KERNEL_WAIT}"
    del device
    gc.collect()
