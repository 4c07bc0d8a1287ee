"""Tensors that come to a device and go from it piece by piece."""

import random
from collections.abc import Callable

import numpy as np
import pytest

import aclgrad_native
from aclgrad import reference

from .blocking import BlockingDevice, BlockingTensor, deadline
from .pooling import plan

MEBIBYTE = 2**20
PIECES = [1, 7, 4096, MEBIBYTE, 4 * MEBIBYTE - 1, 4 * MEBIBYTE, 9 * MEBIBYTE + 3]


def pieces(size: int, piece: int | None) -> list[tuple[int, int]]:
    """Cuts a size into ranges of one length, or of all kinds."""
    drawn = random.Random(size)
    ranges, offset = [], 0
    while offset < size:
        count = min(size - offset, piece or drawn.choice(PIECES))
        ranges.append((offset, offset + count))
        offset += count
    return ranges


def write(tensor: BlockingTensor, data: bytes, piece: int | None = None) -> None:
    for start, end in pieces(len(data), piece):
        tensor.write(start, memoryview(data)[start:end])


def read(tensor: BlockingTensor, size: int, piece: int | None = None) -> bytes:
    return b"".join(tensor.read(start, end - start) for start, end in pieces(size, piece))


@pytest.mark.parametrize("piece", [None, 1000, MEBIBYTE, 64 * MEBIBYTE])
def test_what_was_written_is_read(device: BlockingDevice, piece: int | None) -> None:
    sizes = [20 * MEBIBYTE + 5, 4 * MEBIBYTE, 3] if piece != 1000 else [9 * MEBIBYTE, 1001]
    data = [np.random.default_rng(size).bytes(size) for size in sizes]
    tensors = device.stage(*sizes)
    assert [tensor.native.size_bytes for tensor in tensors] == sizes
    for tensor, each in zip(tensors, data, strict=True):
        write(tensor, each, piece)
    for tensor, each in zip(tensors, data, strict=True):
        assert read(tensor, len(each), piece) == each
    # Not in order either.
    assert read(tensors[0], sizes[0], piece) == data[0]
    del tensor, tensors
    device.assert_idle()


def test_operator_runs_on_staged_tensors(device: BlockingDevice) -> None:
    grad = np.random.default_rng(0).standard_normal((2, 64, 64), np.float32)
    shape = (2, 1500, 1024)
    source, target = device.stage(grad.nbytes, 4 * 2 * 1500 * 1024)
    write(source, grad.tobytes())
    device.execute_into(plan(grad.shape, shape), [source, None], target)
    gradient = np.frombuffer(read(target, 4 * 2 * 1500 * 1024), np.float32).reshape(shape)
    np.testing.assert_allclose(gradient, reference.adaptive_avg_pool2d_backward(grad, shape), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("prefix", [b"", b"prefix\x00"])
def test_bytes_are_read_behind_a_prefix(device: BlockingDevice, prefix: bytes) -> None:
    (tensor,) = device.stage(10)
    tensor.write(0, b"0123456789")
    assert tensor.read(3, 4, prefix) == prefix + b"3456"
    assert tensor.read(10, 0, prefix) == prefix


@pytest.mark.parametrize("on_host", [False, True])
@pytest.mark.parametrize(("offset", "size"), [(0, 11), (10, 1), (11, 0), (2**63, 10)])
def test_bytes_beyond_the_end_go_nowhere(device: BlockingDevice, offset: int, size: int, on_host: bool) -> None:
    (tensor,) = device.stage(10, on_host=on_host)
    with pytest.raises(IndexError, match="10 bytes"):
        tensor.read(offset, size)
    with pytest.raises(IndexError, match="10 bytes"):
        tensor.write(offset, bytes(size))


@pytest.mark.parametrize("sizes", [[65 * MEBIBYTE], [1, 65 * MEBIBYTE]])
def test_reservation_beyond_the_pool(device: BlockingDevice, sizes: list[int]) -> None:
    """Nothing of it stays, and the ticket of the release comes back all the same."""
    with pytest.raises(aclgrad_native.OutOfMemoryError):
        device.stage(*sizes)
    assert len(device.released) == 1
    device.assert_idle()


def test_a_staging_is_released_when_nobody_has_any_of_its_tensors(device: BlockingDevice) -> None:
    first, second = device.stage(10, 20)
    before = device.state().pool.allocated_bytes
    del first
    with pytest.raises(TimeoutError):
        device.waiting.end(device.released[0], timeout_s=0.05)
    assert device.state().pool.allocated_bytes == before > 0
    second.write(0, b"still there")
    assert second.read(0, 11) == b"still there"
    del second
    device.assert_idle()


def test_a_closed_tensor_takes_no_work_and_keeps_nothing(device: BlockingDevice) -> None:
    source, target = device.stage(4, 16)
    call = plan((1, 1, 1), (1, 2, 2))
    ticket = device.waiting.new_ticket()
    source.native.write(ticket, 0, b"grad", deadline(60))
    source.native.close()
    source.native.close()
    assert device.waiting.result(ticket) is None
    for use in (
        lambda: source.write(0, b"grad"),
        lambda: source.read(0, 4),
        lambda: source.read_file(0, 0),
        lambda: source.write_file(1, 0),
        lambda: device.execute_into(call, [source, None], target),
        lambda: device.execute_into(call, [b"grad", None], source),
    ):
        with pytest.raises(ValueError, match="tensor is closed"):
            use()
    # The copy is over, so the release does not leave it to the device.
    target.native.close()
    device.assert_idle()


def test_work_that_nobody_waits_for_keeps_its_tensors(library: aclgrad_native.AclLibrary) -> None:
    """The release comes after it, in any order of dropped references."""
    # One thread: a staging takes one copy at a time, and this test does not wait for the first before the second.
    device = BlockingDevice(library, copy_threads=1)
    size = 8 * MEBIBYTE
    source, target = device.stage(size, size)
    call = plan((2, 1024, 1024), (2, 1024, 1024))
    tickets = [device.waiting.new_ticket() for _ in range(3)]
    source.native.write(tickets[0], 0, b"\x55" * size, deadline(60))
    device.native.submit_into(tickets[1], call, [source.native, None], target.native, deadline(60))
    target.native.read(tickets[2], 0, size, b"", deadline(60))
    del source, target
    for ticket in tickets:
        device.waiting.result(ticket)
    device.assert_idle()


def test_a_tensor_of_another_device_is_refused(library: aclgrad_native.AclLibrary, device: BlockingDevice) -> None:
    """Its address means nothing there."""
    other = BlockingDevice(library)
    (own_source,), (own_target,) = device.stage(4), device.stage(16)
    (source,), (target,) = other.stage(4), other.stage(16)
    call = plan((1, 1, 1), (1, 2, 2))
    for inputs, output, name in (([source, None], own_target, "input 0"), ([own_source, None], target, "the output")):
        with pytest.raises(ValueError, match=f"{name} was staged on device 0 and the call runs on device 0; stage it"):
            device.execute_into(call, inputs, output)
    del inputs, output, own_source, own_target
    device.assert_idle()


def test_join(device: BlockingDevice) -> None:
    pieces = [b"a", b"", memoryview(b"xbcx")[1:3], bytes(5 * MEBIBYTE), bytearray(b"end")]
    assert device.join(pieces) == b"abc" + bytes(5 * MEBIBYTE) + b"end"
    assert device.join([]) == b""
    with pytest.raises(TypeError):
        device.join(["text"])  # type: ignore[list-item]


RECORDED = """
device = open_device(steered=True)
pieces = test_staging.pieces
kept = {size: np.random.default_rng(size).bytes(size) for size in (1001, (10 << 20) + 7)}
data = kept.get
def count():
    return steer.Calls(b"aclrtMemcpyAsync"), steer.Calls(b"aclrtSynchronizeStreamWithTimeout")
"""


@pytest.mark.once
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


@pytest.mark.once
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


@pytest.mark.once
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


@pytest.mark.once
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


@pytest.mark.once
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


@pytest.mark.once
def test_copies_that_were_abandoned_give_their_streams_back(run_program: Callable[..., list[str]]) -> None:
    """Until then another copy waits for one."""
    program = """
for _ in range(32):
    (tensor,) = device.stage(1000)
    assert fault_of(tensor.write, 0, bytes(1000), 0.01) == "timeout 507046"
    del tensor
(tensor,) = device.stage(1000)
print(outcome(tensor.write, 0, bytes(1000), 0.01))
tensor.write(0, b"x" * 1000)
print(tensor.read(0, 1000) == b"x" * 1000)
del tensor
device.assert_idle()
"""
    slow = {"kind": "slow_copy", "at": 1, "count": 32, "duration_ms": 3000}
    lines = run_program(COPYING + program, host_pointers=False, faults=[slow])
    assert lines == ["not_begun the wait for a stream", "True"]


FAIR = """
device = open_device(stream_limit=1, copy_threads=1)
size = 48 << 20
(large,), (small,) = device.stage(size), device.stage(1)
with tempfile.TemporaryFile() as file:
    file.truncate(size)
    tickets = [device.waiting.new_ticket() for _ in range(6)]
    large.native.read_file(tickets[0], file.fileno(), 0, deadline(60))
    for ticket in tickets[1:]:
        small.native.write(ticket, 0, b"x", deadline(60))
    order = []
    while len(order) < 6:
        order += [ticket for ticket, end in device.waiting.completions.drain()]
    print(order.index(tickets[0]))
    print(outcome(large.read_file, file.fileno(), 0, 0.001))
"""


@pytest.mark.once
@pytest.mark.parametrize("host_pointers", [True, False])
def test_the_copy_of_a_large_file_lets_others_go_first_and_ends_at_its_deadline(
    run_program: Callable[..., list[str]], host_pointers: bool
) -> None:
    """One thread copies: what came later needs less than a whole tensor's time."""
    first, end = run_program(FAIR, host_pointers=host_pointers)
    assert first == "5"
    assert end in ("not_begun the copy", "timeout aclrtSynchronizeStream")
