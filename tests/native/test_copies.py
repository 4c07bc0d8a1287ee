"""Copies of staged tensors on a device that takes no host memory: how many there are, late ones, and failing ones."""

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.once

RECORDED = """
device = open_device(steered=True)
pieces = test_staging.pieces
kept = {size: np.random.default_rng(size).bytes(size) for size in (1001, (10 << 20) + 7)}
data = kept.get
def count():
    return steer.Calls(b"aclrtMemcpyAsync"), steer.Calls(b"aclrtSynchronizeStreamWithTimeout")
"""


def test_asynchronous_copies_begin_at_aligned_addresses(run_program: Callable[..., list[str]]) -> None:
    """Whatever the pieces."""
    program = """
size = (10 << 20) + 7
(tensor,), (small,) = device.stage(size), device.stage(1001)
for piece in (1001, 65537, 5 << 20):
    for start, end in pieces(size, piece):
        tensor.write(start, memoryview(data(size))[start:end])
    assert tensor.read(0, size) == data(size)
    print(steer.Misalignment())
# Out of order, between each other, and twice.
for start, end in reversed(pieces(1001, 10)):
    small.write(start, data(1001)[start:end])
    tensor.write(start, b"x" * 10)
    small.write(start, data(1001)[start:end])
assert small.read(0, 1001) == data(1001)
assert small.read(100, 3) == data(1001)[100:103]
assert tensor.read(0, size) == (b"x" * 1010)[:1010] + data(size)[1010:]
print(steer.Misalignment(), min(count()) > 0)
"""
    assert run_program(RECORDED + program, host_pointers=False) == ["0"] * 3 + ["0 True"]


def test_nothing_is_under_way_between_two_pieces(run_program: Callable[..., list[str]]) -> None:
    """Each half of the ring is one copy, which is waited for; nothing is fetched ahead for a client that may stall."""
    program = """
(tensor,) = device.stage(9 << 20)
count()
tensor.write(0, bytes(3 << 20))
print(*count())
tensor.write(3 << 20, bytes(1))
print(*count())
tensor.read(1 << 20, 5 << 19)
print(*count())
"""
    assert run_program(RECORDED + program, host_pointers=False) == ["3 3", "1 1", "3 3"]


COPYING = """
device = open_device(stream_limit=1)
def fault_of(method, *arguments):
    try:
        return method(*arguments)
    except AclError as error:
        return f"{error.fault} {error.code}"
"""


def test_slow_copies_are_waited_for_and_a_late_one_is_abandoned(run_program: Callable[..., list[str]]) -> None:
    """The first two copies take long; the late one keeps its block, and its ticket of release, until it has ended."""
    program = """
(tensor,) = device.stage(1000)
tensor.write(0, bytes(1000))
print(fault_of(tensor.write, 0, bytes(1000), 0.02))
del tensor
def is_released():
    try:
        return device.waiting.end(device.released[0], 0.01) is None
    except TimeoutError:
        return False
print(is_released(), device.state().pool.allocated_bytes > 0)
while not is_released():
    device.release_finished()
print(device.state().pool.allocated_bytes)
"""
    slow = {"kind": "slow_copy", "at": 1, "count": 2, "duration_ms": 500}
    lines = run_program(COPYING + program, host_pointers=False, strict=True, faults=[slow])
    assert lines == ["timeout 507046", "False True", "0"]


def test_a_copy_that_loses_the_device_is_known_to_all_at_once(run_program: Callable[..., list[str]]) -> None:
    """Later calls get the code of that copy before its staging is released; nobody stages, reads or writes."""
    program = """
(first,), (second,) = device.stage(1000), device.stage(1000)
second.write(0, bytes(1000))
print(fault_of(first.write, 0, bytes(1000)))
print(fault_of(device.native.check_steps))
print(fault_of(second.read, 0, 1000))
print(fault_of(second.write, 0, bytes(1000)))
print(fault_of(device.stage, 1000))
"""
    fault = {"kind": "copy_error", "at": 2, "count": 1, "code": 507057}
    lines = run_program(COPYING + program, host_pointers=False, faults=[fault])
    assert lines == ["device_lost 507057"] * 5


def test_a_staging_whose_client_stalls_keeps_no_stream_and_pins_nothing(run_program: Callable[..., list[str]]) -> None:
    """A device has 32 streams for copies, and pinned memory for as many."""
    program = """
stalled = []
for number in range(100):
    (tensor,) = device.stage(300_000, timeout_s=30)
    tensor.write(0, b"x" * (1000 if number % 2 else 300_000), timeout_s=30)
    assert tensor.read(0, 1000, timeout_s=30) == b"x" * 1000
    stalled.append(tensor)
print("copied")
"""
    assert run_program(COPYING + program, host_pointers=False) == ["copied"]


def test_copies_that_were_abandoned_give_their_streams_back(run_program: Callable[..., list[str]]) -> None:
    """Until then another copy waits for one."""
    program = """
for _ in range(32):
    (tensor,) = device.stage(1000)
    assert fault_of(tensor.write, 0, bytes(1000), 0.05) == "timeout 507046"
    del tensor
(tensor,) = device.stage(1000)
print(outcome(tensor.write, 0, bytes(1000), 0.05))
tensor.write(0, b"x" * 1000)
print(tensor.read(0, 1000) == b"x" * 1000)
del tensor
device.assert_idle()
"""
    slow = {"kind": "slow_copy", "at": 1, "count": 32, "duration_ms": 3000}
    lines = run_program(COPYING + program, host_pointers=False, faults=[slow])
    assert lines == ["not_begun the wait for a stream", "True"]


FAIR = """
device = open_device(steered=True, stream_limit=1, copy_threads=1)
size = 48 << 20
(large,), (small,) = device.stage(size), device.stage(1)
tickets = [device.waiting.new_ticket() for _ in range(6)]
with tempfile.TemporaryFile() as file:
    file.truncate(size)
    # The one thread is kept until everything is in its queue.
    steer.Hang(b"aclrtGetMemInfo", 1, False)
    device.native.state(None)
    wait_until(lambda: steer.Hanging(b"aclrtGetMemInfo"))
    large.native.read_file(tickets[0], file.fileno(), 0, deadline(60))
    for ticket in tickets[1:]:
        device.native.write(ticket, [(small.native, 0, b"x")], deadline(60))
    steer.Release()
    order = []
    while len(order) < 7:
        order += [ticket for ticket, end in device.waiting.completions.drain()]
    print(order.index(tickets[0]))
    print(outcome(large.read_file, file.fileno(), 0, 0.001))
"""


@pytest.mark.parametrize("host_pointers", [True, False])
def test_the_copy_of_a_large_file_lets_others_go_first_and_ends_at_its_deadline(
    run_program: Callable[..., list[str]], host_pointers: bool
) -> None:
    """One thread copies: what came later needs less than a whole tensor's time."""
    place, end = run_program(FAIR, host_pointers=host_pointers)
    assert place == "6"
    assert end in ("not_begun the copy", "timeout aclrtSynchronizeStream")
