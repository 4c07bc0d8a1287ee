"""The memory pool, as a device's statistics tell of it: a device that does not take host memory as its own."""

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import aclgrad_native
from aclgrad_native import AclError, Device, OutOfMemoryError

from .pooling import FLOAT32, SYMBOL, pool

GRAD = np.ones((1, 2, 2), np.float32)
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aclgrad_native.AclLibrary]:
    config: Path = tmp_path_factory.mktemp("config") / "acl.json"
    config.write_text('{"host": {"host_pointers": false}}')
    yield aclgrad_native.open("host", str(config))
    gc.collect()


def test_memory_of_a_call_is_given_back_and_used_again(device: Device) -> None:
    pool(device, GRAD, (1, 64, 64))
    first = device.pool_statistics()
    assert first.allocated_bytes == 0
    assert first.peak_allocated_bytes >= 2 * 64 * 64 * 4 + GRAD.nbytes
    assert first.reserved_bytes >= first.peak_allocated_bytes
    pool(device, GRAD, (1, 64, 64))
    second = device.pool_statistics()
    assert second.reserved_bytes == first.reserved_bytes
    assert second.allocation_count == 2 * first.allocation_count
    assert second.hit_count - first.hit_count == first.allocation_count


def test_trim_gives_everything_back_to_the_device(device: Device) -> None:
    before, _ = device.memory()
    pool(device, GRAD, (1, 512, 512))
    held = device.pool_statistics().reserved_bytes
    assert device.memory()[0] <= before - held  # the device may round up
    device.trim()
    assert device.pool_statistics().reserved_bytes == 0
    assert device.memory()[0] == before


def test_memory_of_a_device_that_is_gone_is_given_back(library: aclgrad_native.AclLibrary, device: Device) -> None:
    before, _ = device.memory()
    other = Device(library, 0, pool_limit_bytes=None, stream_limit=1)
    pool(other, GRAD, (1, 512, 512))
    assert device.memory()[0] < before
    del other
    assert device.memory()[0] == before


def test_allocation_over_the_limit_is_told_with_both_sizes(library: aclgrad_native.AclLibrary) -> None:
    device = Device(library, 0, pool_limit_bytes=4 * MEBIBYTE, stream_limit=1)
    with pytest.raises(OutOfMemoryError) as caught:
        pool(device, GRAD, (1, 2048, 2048))
    error = caught.value
    assert isinstance(error, AclError)
    assert error.code == 207001
    assert (error.size_bytes, error.limit_bytes) == (2048 * 2048 * 4, 4 * MEBIBYTE)
    assert str(error.size_bytes) in str(error)
    assert str(error.limit_bytes) in str(error)
    statistics = device.pool_statistics()
    assert (statistics.allocated_bytes, statistics.out_of_memory_count) == (0, 1)
    assert statistics.limit_bytes == 4 * MEBIBYTE
    assert pool(device, GRAD, (1, 4, 4)).sum() == 4


def test_tensors_that_do_not_fit_together_are_out_of_memory(library: aclgrad_native.AclLibrary) -> None:
    device = Device(library, 0, pool_limit_bytes=5 * MEBIBYTE, stream_limit=1)
    with pytest.raises(OutOfMemoryError) as caught:
        pool(device, GRAD, (1, 1024, 1023))
    assert caught.value.size_bytes <= 5 * MEBIBYTE
    assert caught.value.allocated_bytes > 0
    assert device.pool_statistics().allocated_bytes == 0


def test_cache_makes_room_for_tensors_of_another_size(library: aclgrad_native.AclLibrary) -> None:
    device = Device(library, 0, pool_limit_bytes=10 * MEBIBYTE, stream_limit=1)
    for size in (100, 300, 700, 1000, 700, 300, 100):
        assert pool(device, GRAD, (1, size, size)).sum() == pytest.approx(4)
        assert device.pool_statistics().reserved_bytes <= 10 * MEBIBYTE
    assert device.pool_statistics().out_of_memory_count == 0


def roi_align(device: Device, count: int) -> list[Exception | None]:
    """Runs so many calls of an operator that takes a workspace, on as many streams; returns their errors."""
    shape = (1, 8, 64, 64)
    boxes = np.array([[0, 0, 0, 60, 60]], np.float32)
    bins = np.ones((1, 8, 2, 2), np.float32)
    inputs = [(each.shape, FLOAT32, each.tobytes()) for each in (bins, boxes)]
    attributes = [list(shape), 2, 2, 1.0, 2, False]
    replies = [aclgrad_native.ReplyBuffer([(b"", int(np.prod(shape)) * 4)]) for _ in range(count)]
    calls = [("aclnnRoiAlignV2Backward", inputs, attributes, shape, FLOAT32, reply.parts()[0], []) for reply in replies]
    return device.execute_all(calls, 60_000)


def test_workspaces_that_nobody_needs_now_make_room(library: aclgrad_native.AclLibrary) -> None:
    """That of the call's own stream as well as those of others."""

    def make_device(limit_bytes: int) -> Device:
        return Device(library, 0, pool_limit_bytes=limit_bytes, stream_limit=2, pool_pass_through=True)

    probe = make_device(64 * MEBIBYTE)
    assert roi_align(probe, 2) == [None, None]
    workspace_bytes = probe.pool_statistics().workspace_bytes // 2
    both_bytes = probe.pool_statistics().peak_allocated_bytes
    assert workspace_bytes > 0
    limit_bytes = 2 * 4 * 1024 * 1024 + GRAD.nbytes
    assert both_bytes < limit_bytes
    device = make_device(limit_bytes)
    assert roi_align(device, 2) == [None, None]
    assert device.pool_statistics().workspace_bytes == 2 * workspace_bytes
    # Fits exactly where nothing else is held.
    assert pool(device, GRAD, (1, 1024, 1024)).sum() == 4
    statistics = device.pool_statistics()
    assert (statistics.out_of_memory_count, statistics.retry_count, statistics.workspace_bytes) == (0, 1, 0)
    assert roi_align(device, 2) == [None, None]


def test_reply_buffer_keeps_its_prefix_and_is_filled_with_zeros() -> None:
    reply = aclgrad_native.ReplyBuffer([(b"prefix\x00\xff", 5)])
    reply.parts()[0].fill_with_zeros()
    assert reply.finish() == b"prefix\x00\xff" + bytes(5)


@pytest.mark.parametrize(("prefix", "size"), [(b"", 0), (b"", 3), (b"p", 0)])
def test_reply_buffer_has_its_size(prefix: bytes, size: int) -> None:
    reply = aclgrad_native.ReplyBuffer([(prefix, size)])
    reply.parts()[0].fill_with_zeros()
    assert reply.finish() == prefix + bytes(size)


def test_finished_reply_buffer_is_not_written_again(device: Device) -> None:
    reply = aclgrad_native.ReplyBuffer([(b"", 16)])
    (part,) = reply.parts()
    reply.finish()
    with pytest.raises(RuntimeError, match="finished"):
        reply.finish()
    with pytest.raises(RuntimeError, match="finished"):
        part.fill_with_zeros()
    inputs = [((1, 2, 2), FLOAT32, GRAD.tobytes()), ((1, 2, 2), FLOAT32, None)]
    with pytest.raises(RuntimeError, match="finished"):
        device.execute((SYMBOL, inputs, [], (1, 2, 2), FLOAT32, part, []), 1000)


@pytest.mark.parametrize(("size", "kind"), [(-1, TypeError), (2**62, MemoryError)], ids=["negative", "huge"])
def test_reply_buffer_of_an_impossible_size_is_refused(size: int, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        aclgrad_native.ReplyBuffer([(b"", size)])
