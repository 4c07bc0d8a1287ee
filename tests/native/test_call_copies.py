"""What a call asks of a device that takes no host memory: copies, waits and allocations."""

from typing import Any

import numpy as np
import pytest

from tools.calling import wait_until

from . import test_checked_calls as two_inputs
from .blocking import BlockingDevice
from .forked import CALL, CONTENTS, KERNEL_WAIT, open_device, outcome, steer
from .forks import in_fork
from .pooling import pool

pytestmark = pytest.mark.once

PINNED = 4 << 20
ALLOCATIONS = b"aclrtMalloc", b"aclrtMallocHost", b"aclrtFree", b"aclrtFreeHost"


def count() -> tuple[int, ...]:
    """Returns the waits, the blocking and the asynchronous copies, and the allocations since the last time."""
    names = b"aclrtSynchronizeStreamWithTimeout", b"aclrtMemcpy", b"aclrtMemcpyAsync"
    return *map(steer.Calls, names), sum(map(steer.Calls, ALLOCATIONS))


def assert_pooled(device: BlockingDevice, shape: tuple[int, int, int], scale: int) -> None:
    grad_output = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    larger = (shape[0], shape[1] * scale, shape[2])
    assert (pool(device, grad_output, larger) == grad_output.repeat(scale, 1) / scale).all()


@in_fork(host_pointers=False, strict=True)
def test_a_warm_call_waits_once_and_copies_without_blocking() -> None:
    """Two inputs come in and one output goes out; their sizes are no multiples of 64."""
    device = open_device(steered=True)
    for _ in range(2):
        count()
        assert_pooled(device, (3, 1, 5), 2)
    assert (count(), steer.Misalignment()) == ((1, 0, 2, 0), 0)
    for _ in range(2):
        count()
        contents = [two_inputs.GRAD.tobytes(), None, two_inputs.INDICES.tobytes()]
        reply = device.execute(two_inputs.unpool(), contents)
    assert (two_inputs.gradient(reply, two_inputs.INDICES.shape) == two_inputs.unpooled()).all()
    assert (count(), steer.Misalignment()) == ((1, 0, 3, 0), 0)
    # As does each call of a batch.
    for _ in range(2):
        count()
        reply, errors = device.execute_all([(CALL, CONTENTS, b"")] * 4)
    assert (errors, len(reply), count()) == ([None] * 4, 64, (4, 0, 8, 0))
    device.assert_idle()


@pytest.mark.parametrize(
    ("columns", "scale", "blocking", "asynchronous"),
    [
        # The output takes the place of the input.
        (PINNED // 4, 1, 0, 2),
        (PINNED // 8, 2, 0, 2),
        (PINNED // 4 - 1, 2, 1, 1),
        (PINNED // 4 + 1, 1, 2, 0),
    ],
)
@in_fork(host_pointers=False, strict=True)
def test_tensors_that_do_not_fit_into_the_pinned_memory_are_copied_by_blocking_copies(
    columns: int, scale: int, blocking: int, asynchronous: int
) -> None:
    device = open_device(steered=True)
    for _ in range(2):
        count()
        assert_pooled(device, (1, 1, columns), scale)
    assert count() == (1, blocking, asynchronous, 0)


@in_fork(host_pointers=False, strict=True, faults=[{"kind": "slow_copy", "at": 1, "duration_ms": 500}])
def test_an_abandoned_call_keeps_its_pinned_memory() -> None:
    """Its input is copied late and its output later; the next call has memory of its own, and strict mode sees both."""
    device = open_device(steered=True, stream_limit=2)
    assert outcome(device.execute, CALL, CONTENTS, 0.1) == f"timeout {KERNEL_WAIT}"
    other = np.full((1, 1, 1), 8, np.float32)
    assert (pool(device, other, (1, 2, 2)) == 2).all()
    assert (device.state().abandoned_count, steer.Calls(b"aclrtMallocHost")) == (1, 1)
    wait_until(steer.IsDone)
    device.release_finished()
    assert device.state().abandoned_count == 0
    tickets = [device.submit(CALL, [other.tobytes(), None]) for _ in range(2)]
    assert [np.frombuffer(device.waiting.result(ticket), np.float32).sum() for ticket in tickets] == [8, 8]
    assert steer.Calls(b"aclrtMallocHost") == 0


@pytest.mark.parametrize("host_pointers", [True, False])
@in_fork(strict=True)
def test_an_input_that_is_not_touched_has_the_memory_of_an_output(host_pointers: bool) -> None:
    """The output takes 768 bytes, which strict mode sees; an output of another size is none for the input."""
    grad_output, shape = np.arange(3, dtype=np.float32).reshape(3, 1, 1), (3, 64, 1)
    own = 0 if host_pointers else 12 + 768
    changes: tuple[tuple[dict[str, Any], int], ...] = (({}, own + 768), ({"untouched": {1: 0}}, own))
    for untouched, expected in changes:
        device = open_device(pool_pass_through=True)
        assert (pool(device, grad_output, shape, **untouched) == grad_output / 64).all()
        assert device.state().pool.peak_allocated_bytes == expected
    with pytest.raises(ValueError, match="memory of an output has 768 bytes; its shape takes 12"):
        pool(open_device(), grad_output, shape, untouched={0: 0}, contents=[None, None])
