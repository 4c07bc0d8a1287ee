"""Tensors that come to a device and go from it piece by piece."""

import random
from collections.abc import Callable

import numpy as np
import pytest

import aclgrad_native
from aclgrad import reference
from aclgrad_native import Device, ReplyBuffer

from .pooling import FLOAT32

SYMBOL = "aclnnAdaptiveAvgPool2dBackward"
MEBIBYTE = 2**20
PIECES = [1, 7, 4096, MEBIBYTE, 4 * MEBIBYTE - 1, 4 * MEBIBYTE, 9 * MEBIBYTE + 3]
WAIT_MS = 60_000


def pieces(size: int, piece: int | None) -> list[tuple[int, int]]:
    """Cuts a size into ranges of one length, or of all kinds."""
    drawn = random.Random(size)
    ranges, offset = [], 0
    while offset < size:
        count = min(size - offset, piece or drawn.choice(PIECES))
        ranges.append((offset, offset + count))
        offset += count
    return ranges


def write(tensor: aclgrad_native.StagedTensor, data: bytes, piece: int | None = None) -> None:
    for start, end in pieces(len(data), piece):
        tensor.write(start, memoryview(data)[start:end], WAIT_MS)


def read(tensor: aclgrad_native.StagedTensor, size: int, piece: int | None = None) -> bytes:
    parts = []
    for start, end in pieces(size, piece):
        reply = ReplyBuffer([(b"", end - start)])
        tensor.read(start, reply.parts()[0], WAIT_MS)
        parts.append(reply.finish())
    return b"".join(parts)


@pytest.mark.parametrize("piece", [None, 1000, MEBIBYTE, 64 * MEBIBYTE])
def test_what_was_written_is_read(device: Device, piece: int | None) -> None:
    staging = device.stage(WAIT_MS)
    sizes = [20 * MEBIBYTE + 5, 4 * MEBIBYTE, 3] if piece != 1000 else [9 * MEBIBYTE, 1001]
    data = [np.random.default_rng(size).bytes(size) for size in sizes]
    tensors = [staging.reserve(size) for size in sizes]
    for tensor, each in zip(tensors, data, strict=True):
        write(tensor, each, piece)
    staging.finish(WAIT_MS)
    for tensor, each in zip(tensors, data, strict=True):
        assert read(tensor, len(each), piece) == each
    # Not in order either.
    assert read(tensors[0], sizes[0], piece) == data[0]
    del tensor, tensors, staging
    assert device.pool_statistics().allocated_bytes == 0


def test_operator_runs_on_staged_tensors(device: Device) -> None:
    grad = np.random.default_rng(0).standard_normal((2, 64, 64), np.float32)
    shape = (2, 1500, 1024)
    staging = device.stage(WAIT_MS)
    source, target = staging.reserve(grad.nbytes), staging.reserve(2 * 1500 * 1024 * 4)
    write(source, grad.tobytes())
    staging.finish(WAIT_MS)
    inputs = [(grad.shape, FLOAT32, source), (shape, FLOAT32, None)]
    device.execute((SYMBOL, inputs, [], shape, FLOAT32, target, []), WAIT_MS)
    gradient = np.frombuffer(read(target, 2 * 1500 * 1024 * 4), np.float32).reshape(shape)
    np.testing.assert_allclose(gradient, reference.adaptive_avg_pool2d_backward(grad, shape), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("offset", "size"), [(0, 11), (10, 1), (11, 0), (2**63, 2**63)])
def test_bytes_beyond_the_end_go_nowhere(device: Device, offset: int, size: int) -> None:
    tensor = device.stage(WAIT_MS).reserve(10)
    with pytest.raises(IndexError, match="10 bytes"):
        tensor.read(offset, ReplyBuffer([(b"", min(size, 20))]).parts()[0], WAIT_MS)
    if size < 20:
        with pytest.raises(IndexError, match="10 bytes"):
            tensor.write(offset, bytes(size), WAIT_MS)


def test_empty_tensor(device: Device) -> None:
    tensor = device.stage(WAIT_MS).reserve(0)
    tensor.write(0, b"", WAIT_MS)
    assert read(tensor, 0) == b""


def test_reservation_beyond_the_pool(device: Device) -> None:
    staging = device.stage(WAIT_MS)
    with pytest.raises(aclgrad_native.OutOfMemoryError):
        staging.reserve(65 * MEBIBYTE)
    assert device.pool_statistics().allocated_bytes == 0


def test_slow_copies_are_waited_for_and_a_late_one_is_given_up(
    run_program: Callable[..., str], tmp_path: object
) -> None:
    """On a device that copies: the first two copies take long; the late one keeps its block until it has ended."""
    program = """
import json, pathlib, sys, tempfile
import aclgrad_native
config = pathlib.Path(tempfile.mkdtemp(), "acl.json")
slow = {"kind": "slow_copy", "at": 1, "count": 2, "duration_ms": 300}
config.write_text(json.dumps({"host": {"host_pointers": False, "strict": True, "faults": [slow]}}))
device = aclgrad_native.Device(aclgrad_native.open("host", str(config)), 0, pool_limit_bytes=None, stream_limit=1)
staging = device.stage(1000)
tensor = staging.reserve(1000)
tensor.write(0, bytes(1000), 1000)
staging.finish(10_000)
tensor.write(0, bytes(1000), 1000)
try:
    staging.finish(20)
except aclgrad_native.AclError as error:
    print(error.code, error.fault)
del staging, tensor
print(device.pool_statistics().allocated_bytes > 0)
import time
while device.pool_statistics().allocated_bytes:
    time.sleep(0.01)
    del_ = device.stage(1000)
    del del_
print("came back")
"""
    assert run_program(program).split("\n") == ["507046 timeout", "True", "came back", ""]


def test_device_that_is_lost_stages_nothing(run_program: Callable[..., str]) -> None:
    """Nobody waited for the copy that told of the loss: its code is what the next call is told."""
    program = """
import json, pathlib, tempfile
import aclgrad_native
config = pathlib.Path(tempfile.mkdtemp(), "acl.json")
fault = {"kind": "copy_error", "at": 1, "count": 1, "code": 507057}
config.write_text(json.dumps({"host": {"host_pointers": False, "faults": [fault]}}))
device = aclgrad_native.Device(aclgrad_native.open("host", str(config)), 0, pool_limit_bytes=None, stream_limit=1)
staging = device.stage(1000)
tensor = staging.reserve(1000)
tensor.write(0, bytes(1000), 1000)
del staging, tensor
try:
    while True:
        device.stage(1000)
except aclgrad_native.AclError as error:
    print(error.code, error.fault)
"""
    assert run_program(program).split() == ["507057", "device_lost"]
