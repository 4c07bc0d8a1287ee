"""What has to hold of tensors that come from files and go to them, on devices of every kind."""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from aclgrad_native import Device, ReplyBuffer, StagedTensor, Staging
from tests.native.pooling import FLOAT32, SYMBOL

WAIT_MS = 60_000
HALF = 4 * 2**20
SIZES = [0, 1, HALF - 1, HALF, HALF + 1, 2 * HALF - 1, 2 * HALF, 2 * HALF + 1, 3 * HALF + 5]
"""Around one and both halves of the pinned ring."""
OFFSETS = [0, 1, 4095, 4097]


def content(size: int, seed: int = 0) -> bytes:
    return np.random.default_rng((size, seed)).bytes(size)


@contextmanager
def file_of(data: bytes) -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.fileno()


def bytes_of(file: int) -> bytes:
    with open(file, "rb", closefd=False) as whole:
        whole.seek(0)
        return whole.read()


def read(tensor: StagedTensor, offset: int, size: int) -> bytes:
    reply = ReplyBuffer([(b"", size)])
    tensor.read(offset, reply.parts()[0], WAIT_MS)
    return reply.finish()


def files_of_all_sizes_at_odd_offsets(device: Device) -> None:
    for size, offset in itertools.product(SIZES, OFFSETS):
        staging = device.stage(WAIT_MS)
        tensor = staging.reserve(size)
        data = content(size)
        with file_of(bytes(offset) + data + b"beyond") as file:
            assert tensor.read_file(file, offset, WAIT_MS) == size
        staging.finish(WAIT_MS)
        assert read(tensor, 0, size) == data
        with file_of(b"\x55" * (offset + size + 3)) as file:
            tensor.write_file(file, offset, WAIT_MS)
            assert bytes_of(file) == b"\x55" * offset + data + b"\x55" * 3
        # It grows where it is too short.
        with file_of(b"") as file:
            tensor.write_file(file, offset, WAIT_MS)
            assert bytes_of(file) == (bytes(offset) + data if size else b"")


def short_files(device: Device) -> None:
    """What a file has is there; the rest of the tensor is as it was."""
    for size, held in itertools.product([1, HALF, 2 * HALF + 1], [0, 1, HALF - 1, HALF, HALF + 1]):
        if held >= size:
            continue
        staging = device.stage(WAIT_MS)
        tensor = staging.reserve(size)
        tensor.write(0, b"\x77" * size, WAIT_MS)
        data = content(held)
        with file_of(b"head" + data) as file:
            assert tensor.read_file(file, 4, WAIT_MS) == held
            assert tensor.read_file(file, 4 + held, WAIT_MS) == 0
            assert tensor.read_file(file, 2**40, WAIT_MS) == 0
        staging.finish(WAIT_MS)
        assert read(tensor, 0, size) == data + b"\x77" * (size - held)


def pieces_and_files_one_after_the_other(device: Device) -> None:
    """The ring goes on where the piece before left it."""
    staging = device.stage(WAIT_MS)
    tensors = [(staging.reserve(size), content(size)) for size in (HALF - 3, 7, HALF + 9, 5)]
    for turn, (tensor, data) in enumerate(tensors):
        if turn % 2:
            tensor.write(0, data, WAIT_MS)
        else:
            with file_of(data) as file:
                assert tensor.read_file(file, 0, WAIT_MS) == len(data)
    staging.finish(WAIT_MS)
    for tensor, data in reversed(tensors):
        assert read(tensor, 0, len(data)) == data


def what_is_written_again_is_what_is_read(device: Device) -> None:
    """Nothing that was fetched ahead before is taken for it."""
    staging = device.stage(WAIT_MS)
    size = 3 * HALF
    tensor = staging.reserve(size)
    for turn in range(3):
        data = content(size, turn)
        tensor.write(0, data, WAIT_MS)
        staging.finish(WAIT_MS)
        assert read(tensor, 0, 10) == data[:10]
        assert read(tensor, HALF, HALF + 1) == data[HALF : 2 * HALF + 1]
    tensor.write(2 * HALF, b"new", WAIT_MS)
    assert read(tensor, 2 * HALF, 3) == b"new"


def an_operator_may_write_again_what_was_read(device: Device) -> None:
    shape = (1, 2, HALF // 4)
    staging = device.stage(WAIT_MS)
    target = staging.reserve(2 * HALF)
    for value in (1.0, 2.0):
        grad = np.full((1, 1, 1), value * shape[1] * shape[2], np.float32)
        call = (SYMBOL, [((1, 1, 1), FLOAT32, grad.tobytes()), (shape, FLOAT32, None)], [], shape, FLOAT32, target, [])
        device.execute(call, WAIT_MS)  # type: ignore[arg-type]
        assert set(np.frombuffer(read(target, 0, 2 * HALF), np.float32)) == {value}
        staging.finish(WAIT_MS)


def files_that_cannot_be_used(device: Device) -> None:
    staging: Staging = device.stage(WAIT_MS)
    tensor = staging.reserve(10)
    with open("/dev/null", "rb") as null, open("/dev/full", "wb") as full:
        cases: list[tuple[Callable[..., object], int, int]] = [
            (tensor.read_file, -1, 0),
            (tensor.write_file, -1, 0),
            (tensor.write_file, null.fileno(), 0),
            (tensor.write_file, full.fileno(), 0),
            (tensor.read_file, null.fileno(), 2**63),
        ]
        for transfer, file, offset in cases:
            with pytest.raises(OSError, match=r"^\[Errno \d+\]"):
                transfer(file, offset, WAIT_MS)
    tensor.write(0, b"0123456789", WAIT_MS)
    staging.finish(WAIT_MS)
    assert read(tensor, 0, 10) == b"0123456789"


CHECKS: list[Callable[[Device], None]] = [
    files_of_all_sizes_at_odd_offsets,
    short_files,
    pieces_and_files_one_after_the_other,
    what_is_written_again_is_what_is_read,
    an_operator_may_write_again_what_was_read,
    files_that_cannot_be_used,
]
