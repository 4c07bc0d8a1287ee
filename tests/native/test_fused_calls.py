"""A group on staged tensors that also makes the copies around it: each is made only for a caller that waits."""

import time
from functools import partial
from typing import Any

import numpy as np
import pytest

from aclgrad import reference
from tools.calling import wait_until

from .blocking import BlockingDevice, alone, deadline
from .forked import LAUNCH, open_device, steer
from .forks import in_fork
from .pooling import plan

GRAD = np.random.default_rng(0).standard_normal((1, 4, 8), np.float32)
SHAPE = (1, 8, 16)


def test_copies_are_made_around_the_call_and_in_order(device: BlockingDevice) -> None:
    """The second write is the one that counts, and the reads are of what the operator wrote."""
    source, target = device.stage(GRAD.nbytes, 512)
    data = GRAD.tobytes()
    writes = [(source.native, 0, b"\x7f" * 100), (source.native, 0, data[:77]), (source.native, 77, data[77:])]
    reads = [(target.native, 0, b"first", 300), (target.native, 300, b"", 212), (source.native, 0, b"input", 128)]
    step = alone(plan(GRAD.shape, SHAPE), [source.native, None], sinks=[(target.native, False)])
    reply, errors, (first, second, third) = device.run_group([step], writes=writes, reads=reads)
    assert (reply, errors) == (b"", [None])
    gradient = np.frombuffer(first.removeprefix(b"first") + second, np.float32).reshape(SHAPE)
    np.testing.assert_allclose(gradient, reference.adaptive_avg_pool2d_backward(GRAD, SHAPE), rtol=1e-5, atol=1e-6)
    assert third == b"input" + data
    del source, target, writes, reads, step
    device.assert_idle()


def test_copies_of_an_empty_call_are_made_as_well(device: BlockingDevice) -> None:
    (target,) = device.stage(16)
    step = alone(plan((1, 1, 1), (1, 2, 2), is_empty=True), [None, None], sinks=[(target.native, False)])
    writes, reads = [(target.native, 0, b"\x7f" * 16)], [(target.native, 0, b"", 16)]
    assert device.run_group([step], writes=writes, reads=reads) == (b"", [None], [bytes(16)])


def test_a_copy_beyond_the_end_keeps_the_call_from_running(device: BlockingDevice) -> None:
    source, target = device.stage(4, 16)
    step = alone(plan((1, 1, 1), (1, 2, 2)), [source.native, None], sinks=[(target.native, False)])
    for writes, reads in (([(source.native, 1, b"grad")], []), ([], [(target.native, 0, b"", 17)])):
        target.write(0, b"\x55" * 16)
        source.write(0, bytes(4))
        with pytest.raises(IndexError, match="do not fit into a tensor"):
            device.run_group([step], writes=writes, reads=reads)
        assert target.read(0, 16) == (b"\x55" * 16 if writes else bytes(16))


COPY = b"aclrtMemcpyAsync"
STEPS = [(COPY, 1), (COPY, 2), (LAUNCH, 1), (COPY, 3), (COPY, 4)]
SIDE = (1, 8, 8)
ONES = np.ones(SIDE, np.float32).tobytes()
MADE = [(1, 0), (2, 0), (2, 1), (3, 1), (4, 1)]
"""The copies and launches that were made when a step is the last."""


def submit(device: BlockingDevice, timeout_s: float = 60) -> tuple[int, Any]:
    """Submits a step with two copies in and two out, on tensors that it alone keeps."""
    source, target = device.stage(len(ONES), len(ONES))
    released = device.waiting.new_ticket()
    device.released.append(released)
    half = len(ONES) // 2
    writes = [(source.native, start, ONES[start : start + half]) for start in (0, half)]
    reads = [(target.native, start, b"", half) for start in (0, half)]
    step = alone(plan(SIDE, SIDE), [source.native, None], sinks=[(target.native, False)])
    return device.submit_group([step], timeout_s=timeout_s, released_ticket=released, writes=writes, reads=reads)


def counts() -> tuple[int, int]:
    return steer.Calls(COPY), steer.Calls(LAUNCH)


def assert_nothing_is_left(device: BlockingDevice) -> None:
    """The next call is right, and takes the memory that the one before it had."""
    device.assert_idle()
    assert device.state().abandoned_count == 0
    _, errors, messages = device.waiting.result(submit(device)[0])
    assert (errors, b"".join(messages)) == ([None], ONES)
    device.assert_idle()
    counts()


@pytest.mark.parametrize("is_late", [False, True], ids=["cancelled", "late"])
@in_fork(host_pointers=False)
def test_a_call_that_nobody_waits_for_makes_no_further_step(is_late: bool) -> None:
    """Each step hangs once, and is the last: copies in, the kernel, copies out."""
    device = open_device(steered=True)
    for (name, number), made in list(zip(STEPS, MADE, strict=True))[: 3 if is_late else None]:
        steer.Hang(name, number, False)
        timeout_s = 0.2 if is_late else 60
        ticket, cancellation = submit(device, timeout_s)
        end = deadline(timeout_s)
        wait_until(partial(steer.Hanging, name))
        if is_late:
            wait_until(partial(lambda end: time.monotonic() > end, end))
        else:
            cancellation.cancel()
        steer.Release()
        end_of_group = device.waiting.end(ticket)
        # A copy that is not made is the end of the group.
        error = end_of_group[1][0] if isinstance(end_of_group, tuple) else end_of_group
        if is_late:
            assert error.fault in ("not_begun", "timeout")
        else:
            assert getattr(error, "detail", "done") == ("its client has gone" if made != MADE[-1] else "done")
        assert counts() == made
        wait_until(lambda: (device.release_finished(), device.state().abandoned_count == 0)[1])
        assert_nothing_is_left(device)


@in_fork(host_pointers=False)
def test_copies_of_a_caller_that_has_gone_end_between_two_of_them() -> None:
    device = open_device(steered=True)
    (tensor,) = device.stage(256)
    write: tuple[Any, Any] = device.native.write, [(tensor.native, start, bytes(128)) for start in (0, 128)]
    read: tuple[Any, Any] = device.native.read, [(tensor.native, start, b"", 128) for start in (0, 128)]
    for method, copies in (write, read):
        steer.Hang(COPY, 1, False)
        ticket = device.waiting.new_ticket()
        cancellation = method(ticket, copies, deadline(60))
        wait_until(lambda: steer.Hanging(COPY))
        cancellation.cancel()
        steer.Release()
        assert device.waiting.end(ticket).detail == "its client has gone"
        assert counts() == (1, 0)
