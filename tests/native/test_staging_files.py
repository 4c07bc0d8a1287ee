"""Tensors that come to a device and go from it piece by piece, or in files; refused calls, and late failures."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aclgrad_native import AclLibrary, Input, OutOfMemoryError
from tools.calling import wait_until

from .blocking import POOL_BYTES, BlockingDevice, BlockingTensor, alone, deadline
from .forked import KERNEL_WAIT, open_device, outcome
from .forks import in_fork
from .pooling import plan

LIBRARIES = {"host_pointers": {}, "copies": {"host_pointers": False, "strict": True}}
HALF = 2**20
PIECE = 4 * HALF


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


@pytest.fixture
def device(library: AclLibrary) -> Iterator[BlockingDevice]:
    device = BlockingDevice(library)
    yield device
    device.assert_idle()


EDGES = [0, 1, 4095, HALF - 1, HALF, HALF + 1, 2 * HALF, 2 * HALF + 1, PIECE + 1, 2**63]
"""Around one and both halves of the pinned ring, and the pieces in which files are copied."""
STEPS = st.tuples(
    st.sampled_from(["write", "read", "read_file", "write_file"]), st.sampled_from(EDGES), st.sampled_from(EDGES[:-1])
)
RANDOM = content(PIECE + 100)


def take(tensor: BlockingTensor, held: bytearray, step: str, offset: int, count: int, data: bytes) -> None:
    """Does what the model does; a file has as many bytes from the offset on, and the rest of a tensor stays."""
    size = len(held)
    match step:
        case "write":
            tensor.write(offset, data)
            held[offset : offset + count] = data
        case "read":
            assert tensor.read(offset, count, data[:9]) == data[:9] + held[offset : offset + count]
        case "read_file" if offset < 2**63:
            with file_of(bytes(offset) + data) as file:
                assert tensor.read_file(file, offset) == min(count, size)
                assert tensor.read_file(file, offset + count) == 0
            held[:count] = data[:size]
        case "write_file" if offset < 2**63:
            for before in (b"", b"\x55" * (offset + size + 3)):
                with file_of(before) as file:
                    tensor.write_file(file, offset)
                    # It grows if it is too short.
                    expected = (before[:offset] or bytes(offset)) + held + before[offset + size :]
                    assert bytes_of(file) == (expected if size else before)


@pytest.mark.parametrize("on_host", [False, True])
def test_a_tensor_is_what_the_model_says(device: BlockingDevice, on_host: bool) -> None:
    """Whatever comes to it and goes from it, in pieces and in files, in any order."""

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from([0, 10, HALF - 3, 2 * HALF, PIECE + 9]), st.lists(STEPS, max_size=10))
    def run(size: int, steps: list[tuple[str, int, int]]) -> None:
        (tensor,) = device.stage(size, on_host=on_host)
        assert tensor.native.size_bytes == size
        held = bytearray(RANDOM[:size])
        tensor.write(0, held)
        for number, (step, offset, count) in enumerate([*steps, ("read", 0, size), ("write_file", 4097, 0)]):
            data = RANDOM[number : number + count]
            if step in ("write", "read") and offset + count > size:
                with pytest.raises(IndexError, match=f"{size} bytes"):
                    take(tensor, held, step, offset, count, data)
            else:
                take(tensor, held, step, offset, count, data)

    run()


def test_an_operator_may_write_again_what_was_read(device: BlockingDevice) -> None:
    shape = (1, 2, HALF // 4)
    (target,) = device.stage(2 * HALF)
    for value in (1.0, 2.0):
        grad = np.full((1, 1, 1), value * shape[1] * shape[2], np.float32)
        device.execute_into(plan((1, 1, 1), shape), [grad.tobytes(), None], target)
        assert set(np.frombuffer(target.read(0, 2 * HALF), np.float32)) == {value}


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


@in_fork(host_pointers=False, strict=True, faults=[{"kind": "slow_copy", "at": 10, "count": 1, "duration_ms": 500}])
def test_bytes_that_came_too_late_are_not_taken_for_the_tensor() -> None:
    """The tenth copy, the first one back, is slow; a second request waits again."""
    (tensor,) = open_device().stage(9 << 20)
    tensor.write(0, b"a" * (9 << 20))
    for _ in range(2):
        assert outcome(tensor.read, 0, 100, b"", 0.02) == f"timeout {KERNEL_WAIT}"
    assert tensor.read(0, 9 << 20) == b"a" * (9 << 20)


@pytest.mark.parametrize("is_prefix", [False, True])
@pytest.mark.parametrize("on_host", [False, True])
def test_staged_input_of_another_size_than_its_shape_takes(
    device: BlockingDevice, is_prefix: bool, on_host: bool
) -> None:
    """Not even the beginning of an input: a tensor that is on the device must be complete."""
    inputs = [Input((1, 2, 2), 0, is_prefix=is_prefix), Input((1, 4, 4), 0)]
    (target,) = device.stage(64)
    # A prefix in host memory may be short.
    for size in (17, 2**20) if on_host and is_prefix else (4, 15, 17, 2**20):
        (source,) = device.stage(size, on_host=on_host)
        with pytest.raises(ValueError, match=f"the input has {size} bytes; its shape takes 16"):
            device.execute_into(plan((1, 2, 2), (1, 4, 4), inputs=inputs), [source, None], target)


@pytest.mark.parametrize("sizes", [[65 * HALF], [1, 65 * HALF]])
def test_reservation_beyond_the_pool(device: BlockingDevice, sizes: list[int]) -> None:
    """Nothing of it stays, and the ticket of the release comes back all the same."""
    with pytest.raises(OutOfMemoryError):
        device.stage(*sizes)
    assert len(device.released) == 1
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


def test_a_tensor_of_another_device_is_refused(library: AclLibrary, device: BlockingDevice) -> None:
    """Its address means nothing there; nor may a call copy to and from a closed one."""
    own, target, closed = device.stage(4, 16, 4)
    closed.native.close()
    (other,) = BlockingDevice(library).stage(16)
    call = plan((1, 1, 1), (1, 2, 2))
    for number, output, name in ((other, target, "input 0"), (own, other, "output 0")):
        with pytest.raises(ValueError, match=f"{name} was staged on device 0 and the call runs on device 0; stage it"):
            device.execute_into(call, [number, None], output)
    step = alone(call, [own.native, None], sinks=[(target.native, False)])
    for tensor, problem in ((closed, "the tensor is closed"), (other, "was staged on device 0")):
        with pytest.raises(ValueError, match=f"write 0.*{problem}"):
            device.submit_group([step], writes=[(tensor.native, 0, b"grad")])
        with pytest.raises(ValueError, match=f"read 0.*{problem}"):
            device.submit_group([step], reads=[(tensor.native, 0, b"", 4)])


def test_join(device: BlockingDevice) -> None:
    def join(pieces: Sequence[Any]) -> object:
        return device.waiting.call(device.native.join, pieces)

    assert (
        join([b"a", b"", memoryview(b"xbcx")[1:3], bytes(PIECE), bytearray(b"end")]) == b"abc" + bytes(PIECE) + b"end"
    )
    assert join([]) == b""
    with pytest.raises(TypeError):
        join(["text"])


def test_a_tensor_is_released_by_itself(device: BlockingDevice) -> None:
    """And the ticket of all that were staged together comes back with the last."""
    sizes = 1 << 20, 2 << 20, 3 << 20
    tensors = dict(zip(sizes, device.stage(*sizes), strict=True))
    left = sum(sizes)
    for closed in (2 << 20, 1 << 20):
        tensors.pop(closed).native.close()
        left -= closed
        wait_until(lambda left=left: left <= device.state().pool.allocated_bytes < left + 4096)
        with pytest.raises(TimeoutError):
            device.waiting.end(device.released[0], timeout_s=0.05)
    (last,) = tensors.values()
    last.write(0, b"still there")
    assert last.read(0, 11) == b"still there"
    last.native.close()
    device.assert_idle()


def test_tensors_that_cannot_all_be_staged_leave_nothing(device: BlockingDevice) -> None:
    with pytest.raises(OutOfMemoryError):
        device.stage(1 << 20, POOL_BYTES, 1 << 20)
    device.assert_idle()
