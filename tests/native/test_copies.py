"""Copies of staged tensors on a device that takes no host memory: how many there are, late ones, and failing ones."""

import tempfile

import pytest

from tools.calling import wait_until

from .blocking import deadline
from .forked import KERNEL_WAIT, fault_of, open_device, outcome, steer
from .forks import in_fork

pytestmark = pytest.mark.once

LARGE = (10 << 20) + 7
MEMORY_INFO = b"aclrtGetMemInfo"


def count() -> tuple[int, int]:
    return steer.Calls(b"aclrtMemcpyAsync"), steer.Calls(b"aclrtSynchronizeStreamWithTimeout")


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
    assert min(count()) > 0


@in_fork(host_pointers=False)
def test_nothing_is_under_way_between_two_pieces() -> None:
    """Each half of the ring is one copy, which is waited for; nothing is fetched ahead for a client that may stall."""
    (tensor,) = open_device(steered=True).stage(9 << 20)
    count()
    tensor.write(0, bytes(3 << 20))
    assert count() == (3, 3)
    tensor.write(3 << 20, bytes(1))
    assert count() == (1, 1)
    tensor.read(1 << 20, 5 << 19)
    assert count() == (3, 3)


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


@in_fork(host_pointers=False, strict=True, faults=[{"kind": "slow_copy", "at": 1, "count": 2, "duration_ms": 600}])
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
