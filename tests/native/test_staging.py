"""Tensors that come to a device and go from it piece by piece."""

import random

import pytest

import aclgrad_native

from .blocking import BlockingDevice, deadline
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
    device.native.write(ticket, [(source.native, 0, b"grad")], deadline(60))
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
    device.native.write(tickets[0], [(source.native, 0, b"\x55" * size)], deadline(60))
    device.native.submit_into(tickets[1], call, [source.native, None], [target.native], deadline(60))
    device.native.read(tickets[2], [(target.native, 0, b"", size)], deadline(60))
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
    for inputs, output, name in (([source, None], own_target, "input 0"), ([own_source, None], target, "output 0")):
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
