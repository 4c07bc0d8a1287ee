"""Checks of tensors that are read from files and written to them, on devices of every kind."""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from tests.native.blocking import BlockingDevice
from tests.native.pooling import plan

HALF = 2**20
PIECE = 4 * HALF
SIZES = [0, 1, HALF - 1, HALF, HALF + 1, 2 * HALF - 1, 2 * HALF, 2 * HALF + 1, PIECE, PIECE + 1, 2 * PIECE + 5]
"""Around one and both halves of the pinned ring, and the pieces in which files are copied."""
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


def files_of_all_sizes_at_odd_offsets(device: BlockingDevice) -> None:
    for size, offset in itertools.product(SIZES, OFFSETS):
        (tensor,) = device.stage(size)
        data = content(size)
        with file_of(bytes(offset) + data + b"beyond") as file:
            assert tensor.read_file(file, offset) == size
        assert tensor.read(0, size) == data
        with file_of(b"\x55" * (offset + size + 3)) as file:
            tensor.write_file(file, offset)
            assert bytes_of(file) == b"\x55" * offset + data + b"\x55" * 3
        # It grows if it is too short.
        with file_of(b"") as file:
            tensor.write_file(file, offset)
            assert bytes_of(file) == (bytes(offset) + data if size else b"")


def short_files(device: BlockingDevice) -> None:
    """What a file has is there; the rest of the tensor is as it was."""
    for size, held in itertools.product([1, HALF, 2 * HALF + 1], [0, 1, HALF - 1, HALF, HALF + 1]):
        if held >= size:
            continue
        (tensor,) = device.stage(size)
        tensor.write(0, b"\x77" * size)
        data = content(held)
        with file_of(b"head" + data) as file:
            assert tensor.read_file(file, 4) == held
            assert tensor.read_file(file, 4 + held) == 0
            assert tensor.read_file(file, 2**40) == 0
        assert tensor.read(0, size) == data + b"\x77" * (size - held)


def pieces_and_files_one_after_the_other(device: BlockingDevice) -> None:
    """The ring goes on where the piece before left it."""
    sizes = (HALF - 3, 7, HALF + 9, 5)
    tensors = [(tensor, content(size)) for tensor, size in zip(device.stage(*sizes), sizes, strict=True)]
    for turn, (tensor, data) in enumerate(tensors):
        if turn % 2:
            tensor.write(0, data)
        else:
            with file_of(data) as file:
                assert tensor.read_file(file, 0) == len(data)
    for tensor, data in reversed(tensors):
        assert tensor.read(0, len(data)) == data


def what_is_written_again_is_what_is_read(device: BlockingDevice) -> None:
    """Nothing that was fetched ahead before is taken for it."""
    size = 3 * HALF
    (tensor,) = device.stage(size)
    for turn in range(3):
        data = content(size, turn)
        tensor.write(0, data)
        assert tensor.read(0, 10) == data[:10]
        assert tensor.read(HALF, HALF + 1) == data[HALF : 2 * HALF + 1]
    tensor.write(2 * HALF, b"new")
    assert tensor.read(2 * HALF, 3) == b"new"


def an_operator_may_write_again_what_was_read(device: BlockingDevice) -> None:
    shape = (1, 2, HALF // 4)
    (target,) = device.stage(2 * HALF)
    for value in (1.0, 2.0):
        grad = np.full((1, 1, 1), value * shape[1] * shape[2], np.float32)
        device.execute_into(plan((1, 1, 1), shape), [grad.tobytes(), None], target)
        assert set(np.frombuffer(target.read(0, 2 * HALF), np.float32)) == {value}


def tensors_on_the_host(device: BlockingDevice) -> None:
    """They are filled and emptied like those on the device."""
    size = HALF + 5
    first, second = device.stage(size, size, on_host=True)
    data = content(size)
    first.write(3, data[3:])
    first.write(0, data[:3])
    with file_of(data) as file:
        assert second.read_file(file, 0) == size
        assert second.read_file(file, 10) == size - 10
    assert first.read(0, size, b"head") == b"head" + data
    assert second.read(0, size) == data[10:] + data[-10:]
    with file_of(b"") as file:
        first.write_file(file, 0)
        assert bytes_of(file) == data


def files_that_cannot_be_used(device: BlockingDevice) -> None:
    (tensor,) = device.stage(10)
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
                transfer(file, offset)
    tensor.write(0, b"0123456789")
    assert tensor.read(0, 10) == b"0123456789"


CHECKS: list[Callable[[BlockingDevice], None]] = [
    files_of_all_sizes_at_odd_offsets,
    short_files,
    pieces_and_files_one_after_the_other,
    what_is_written_again_is_what_is_read,
    an_operator_may_write_again_what_was_read,
    tensors_on_the_host,
    files_that_cannot_be_used,
]
