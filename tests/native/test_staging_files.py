"""Staged tensors and files, on devices of both kinds; refused calls, and late failures."""

import gc
import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import aclgrad_native
from tools.strict import config_text, strict_backend, strict_library

from .blocking import BlockingDevice
from .forked import KERNEL_WAIT, open_device, outcome
from .forks import in_fork
from .pooling import plan

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


@pytest.fixture(scope="module", params=["host_pointers", "copies"])
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[aclgrad_native.AclLibrary]:
    """The device that copies is strict, and has nothing to report at its end."""
    if request.param == "host_pointers":
        yield aclgrad_native.open(strict_backend(None))
        gc.collect()
        return
    folder = tmp_path_factory.mktemp("copies")
    config, report = folder / "acl.json", folder / "strict.txt"
    config.write_text(config_text(host_pointers=False, strict=True, strict_report=report))
    yield aclgrad_native.open(strict_library(), str(config))
    gc.collect()
    assert not report.exists() or report.read_text() == ""


@pytest.fixture
def device(library: aclgrad_native.AclLibrary) -> Iterator[BlockingDevice]:
    device = BlockingDevice(library)
    yield device
    device.assert_idle()


def test_files_of_all_sizes_at_odd_offsets(device: BlockingDevice) -> None:
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


def test_short_files(device: BlockingDevice) -> None:
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


def test_pieces_and_files_one_after_the_other(device: BlockingDevice) -> None:
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


def test_what_is_written_again_is_what_is_read(device: BlockingDevice) -> None:
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


def test_an_operator_may_write_again_what_was_read(device: BlockingDevice) -> None:
    shape = (1, 2, HALF // 4)
    (target,) = device.stage(2 * HALF)
    for value in (1.0, 2.0):
        grad = np.full((1, 1, 1), value * shape[1] * shape[2], np.float32)
        device.execute_into(plan((1, 1, 1), shape), [grad.tobytes(), None], target)
        assert set(np.frombuffer(target.read(0, 2 * HALF), np.float32)) == {value}


def test_tensors_on_the_host(device: BlockingDevice) -> None:
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


def test_files_that_cannot_be_used(device: BlockingDevice) -> None:
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


@pytest.mark.once
@in_fork(host_pointers=False, strict=True, faults=[{"kind": "slow_copy", "at": 10, "count": 1, "duration_ms": 500}])
def test_bytes_that_came_too_late_are_not_taken_for_the_tensor() -> None:
    """The tenth copy, the first one back, is slow; a second request waits again."""
    (tensor,) = open_device().stage(9 << 20)
    tensor.write(0, b"a" * (9 << 20))
    for _ in range(2):
        assert outcome(tensor.read, 0, 100, b"", 0.02) == f"timeout {KERNEL_WAIT}"
    assert tensor.read(0, 9 << 20) == b"a" * (9 << 20)


@pytest.mark.parametrize("size", [4, 15, 17, 2**20])
@pytest.mark.parametrize("is_prefix", [False, True])
@pytest.mark.parametrize("on_host", [False, True])
def test_staged_input_of_another_size_than_its_shape_takes(
    device: BlockingDevice, size: int, is_prefix: bool, on_host: bool
) -> None:
    """Not even the beginning of an input: a tensor that is on the device must be complete."""
    if on_host and is_prefix and size < 16:
        return  # a prefix in host memory may be short
    (source,), (target,) = device.stage(size, on_host=on_host), device.stage(64)
    inputs = [((1, 2, 2), 0, is_prefix, None), ((1, 4, 4), 0, False, None)]
    with pytest.raises(ValueError, match=f"the input has {size} bytes; its shape takes 16"):
        device.execute_into(plan((1, 2, 2), (1, 4, 4), inputs=inputs), [source, None], target)
    del source, target
    device.assert_idle()
