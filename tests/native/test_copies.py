"""Copies of calls and of staged tensors on a device that takes no host memory: how many, late ones, failing ones."""

import tempfile
from typing import Any

import numpy as np
import pytest

from tools.calling import wait_until

from . import test_checked_calls as two_inputs
from .blocking import deadline
from .forked import CALL, CONTENTS, KERNEL_WAIT, fault_of, open_device, outcome, steer
from .forks import in_fork
from .pooling import assert_pooled, pool

PINNED = 4 << 20
ALLOCATIONS = b"aclrtMalloc", b"aclrtMallocHost", b"aclrtFree", b"aclrtFreeHost"


def count() -> tuple[int, ...]:
    """Returns the waits, the blocking and the asynchronous copies, and the allocations since the last time."""
    names = b"aclrtSynchronizeStreamWithTimeout", b"aclrtMemcpy", b"aclrtMemcpyAsync"
    return *map(steer.Calls, names), sum(map(steer.Calls, ALLOCATIONS))


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
    # As does each step of a group.
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


LARGE = (10 << 20) + 7
MEMORY_INFO = b"aclrtGetMemInfo"


def copies_and_waits() -> tuple[int, int]:
    """Of staged tensors, since the last time."""
    waits, _, copies, _ = count()
    return copies, waits


@in_fork(host_pointers=False)
def test_asynchronous_copies_begin_at_aligned_addresses() -> None:
    """Whatever the pieces; their bytes are those of test_staging_files.py's model."""
    device = open_device(steered=True)
    (tensor,), (small,) = device.stage(LARGE), device.stage(1001)
    for piece in (1001, 65537, 5 << 20):
        for start in range(0, LARGE, piece):
            tensor.write(start, bytes(min(piece, LARGE - start)))
    for start in reversed(range(0, 1001, 10)):
        small.write(start, bytes(min(10, 1001 - start)))
    for read, begin, size in ((small, 100, 3), (tensor, 0, LARGE)):
        read.read(begin, size)
    assert steer.Misalignment() == 0
    assert min(copies_and_waits()) > 0


@in_fork(host_pointers=False)
def test_nothing_is_under_way_between_two_pieces() -> None:
    """Each half of the ring is one copy, which is waited for; nothing is fetched ahead for a client that may stall."""
    (tensor,) = open_device(steered=True).stage(9 << 20)
    copies_and_waits()
    tensor.write(0, bytes(3 << 20))
    assert copies_and_waits() == (3, 3)
    tensor.write(3 << 20, bytes(1))
    assert copies_and_waits() == (1, 1)
    tensor.read(1 << 20, 5 << 19)
    assert copies_and_waits() == (3, 3)


@in_fork(host_pointers=False, faults=[{"kind": "copy_error", "at": 2, "count": 1, "code": 507057}])
def test_a_copy_that_loses_the_device_is_known_to_all_at_once() -> None:
    """Later calls get the code of that copy before its staging is released; nobody stages, reads or writes."""
    device = open_device(stream_limit=1)
    (first,), (second,) = device.stage(1000), device.stage(1000)
    second.write(0, bytes(1000))
    for method, *arguments in (
        (first.write, 0, bytes(1000)),
        (device.native.check_steps,),
        (second.read, 0, 1000),
        (second.write, 0, bytes(1000)),
        (device.stage, 1000),
    ):
        assert fault_of(method, *arguments) == "device_lost 507057"


@in_fork(host_pointers=False)
def test_a_staging_whose_client_stalls_keeps_no_stream_and_pins_nothing() -> None:
    """A device has few streams for copies, and pinned memory for as many."""
    device, stalled = open_device(stream_limit=1, copy_stream_limit=2), []
    for number in range(6):
        (tensor,) = device.stage(300_000, timeout_s=30)
        tensor.write(0, b"x" * (1000 if number % 2 else 300_000), timeout_s=30)
        assert tensor.read(0, 1000, timeout_s=30) == b"x" * 1000
        stalled.append(tensor)


@in_fork(host_pointers=False, strict=True, faults=[{"kind": "slow_copy", "at": 1, "count": 2, "duration_ms": 1500}])
def test_copies_that_were_abandoned_give_their_streams_back() -> None:
    """Until then another copy waits for one."""
    device = open_device(stream_limit=1, copy_stream_limit=2)
    for _ in range(2):
        (tensor,) = device.stage(1000)
        assert fault_of(tensor.write, 0, bytes(1000), 0.05) == "timeout 507046"
        del tensor
    (tensor,) = device.stage(1000)
    assert outcome(tensor.write, 0, bytes(1000), 0.05) == "not_begun the wait for a stream"
    tensor.write(0, b"x" * 1000)
    assert tensor.read(0, 1000) == b"x" * 1000
    del tensor
    device.assert_idle()


@pytest.mark.parametrize("host_pointers", [True, False])
@in_fork()
def test_the_copy_of_a_large_file_lets_others_go_first_and_ends_at_its_deadline(host_pointers: bool) -> None:
    """One thread copies: what came later needs less than a whole tensor's time."""
    device, size = open_device(steered=True, stream_limit=1, copy_threads=1), 48 << 20
    (large,), (small,) = device.stage(size), device.stage(1)
    tickets = [device.waiting.new_ticket() for _ in range(6)]
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        # The one thread is kept until everything is in its queue.
        steer.Hang(MEMORY_INFO, 1, False)
        device.native.state(None)
        wait_until(lambda: steer.Hanging(MEMORY_INFO))
        large.native.read_file(tickets[0], file.fileno(), 0, deadline(60))
        for ticket in tickets[1:]:
            device.native.write(ticket, [(small.native, 0, b"x")], deadline(60))
        steer.Release()
        order: list[int] = []
        while len(order) < 7:
            order += [ticket for ticket, _ in device.waiting.completions.drain()]
        assert order.index(tickets[0]) == 6
        end = outcome(large.read_file, file.fileno(), 0, 0.001)
    assert end in ("not_begun the copy", f"timeout {KERNEL_WAIT}")
