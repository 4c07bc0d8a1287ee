"""Operators on a device: their results, refused calls, and leaks."""

from functools import partial
from typing import Any

import numpy as np
import pytest

import aclgrad_native
from aclgrad import reference
from aclgrad_native import AclError, OutOfMemoryError

from .blocking import BlockingDevice
from .forked import open_library
from .forks import in_fork
from .pooling import FLOAT32, plan, pool, returned

GRAD = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
SHAPE = (1, 7, 9)
UNSENT = (SHAPE, FLOAT32, False, None)
SENT = (GRAD.shape, FLOAT32, False, None)
DATA = GRAD.tobytes()


def truth(grad_output: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return reference.adaptive_avg_pool2d_backward(grad_output, shape)


def test_gradient_is_written_behind_the_prefix(device: BlockingDevice) -> None:
    """An input may start at any byte."""
    data = memoryview(b"x" + DATA)[1:]
    gradient = pool(device, GRAD, SHAPE, b"prefix\x00\xff", contents=[data, None])
    np.testing.assert_allclose(gradient, truth(GRAD, SHAPE), rtol=1e-6)
    state = device.state()
    assert 0 < state.free_bytes <= state.total_bytes


@pytest.mark.parametrize("index", [-1, 1, 99])
def test_index_that_no_device_has(library: aclgrad_native.AclLibrary, index: int) -> None:
    with pytest.raises(AclError) as caught:
        BlockingDevice(library, index, stream_limit=1)
    error = caught.value
    assert (error.code, error.call) == (107001, "aclrtSetDevice")
    assert str(index) in error.detail
    assert str(error) == f"aclrtSetDevice returned 107001: {error.detail}"


INVALID = r"takes|has|negative|overflow|no data type|given|no operator aclnnNothing; a header of native/include/aclnnop"
HUGE = ((1, 2**14, 2**14), FLOAT32, False, None)
BAD_CALLS: dict[str, tuple[type[Exception], list[Any], dict[str, Any]]] = {
    "no_input": (ValueError, [], {"inputs": []}),
    "one_input": (ValueError, [DATA], {"inputs": [SENT]}),
    "three_inputs": (ValueError, [DATA, None, None], {"inputs": [SENT, UNSENT, UNSENT]}),
    "an_attribute": (ValueError, [DATA, None], {"attributes": [1]}),
    "short_data": (ValueError, [bytes(47), None], {}),
    "long_data": (ValueError, [bytes(49), None], {}),
    "negative_size": (ValueError, [DATA, None], {"inputs": [SENT, ((1, -7, 9), FLOAT32, False, None)]}),
    "overflow": (ValueError, [DATA, None], {"inputs": [SENT, ((2**33, 2**33), FLOAT32, False, None)]}),
    "no_data_type": (ValueError, [DATA, None], {"inputs": [SENT, (SHAPE, 9999, False, None)]}),
    "short_reply": (ValueError, [DATA, None], {"outputs": [returned(SHAPE, 4)]}),
    "long_reply": (ValueError, [DATA, None], {"outputs": [returned(SHAPE, 1000)]}),
    "two_outputs": (ValueError, [DATA, None], {"outputs": [returned(SHAPE), returned(SHAPE)]}),
    "no_operator": (ValueError, [DATA, None], {"symbol": "aclnnNothing"}),
    "refused": (AclError, [DATA, None], {"inputs": [SENT, ((2, 7, 9), FLOAT32, False, None)]}),
    "beyond_the_pool": (OutOfMemoryError, [None, None], {"inputs": [HUGE, UNSENT]}),
}


@pytest.mark.parametrize(("kind", "contents", "changes"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_a_bad_call_fails_alone_and_leaves_nothing(
    device: BlockingDevice, kind: type[Exception], contents: list[Any], changes: dict[str, Any]
) -> None:
    bad, good = plan(GRAD.shape, SHAPE, **changes), plan(GRAD.shape, SHAPE)
    with pytest.raises(kind, match=INVALID if kind is ValueError else None) as caught:
        device.execute(bad, contents)
    if kind is AclError:
        assert (getattr(caught.value, "code", 0), getattr(caught.value, "call", "")) == (161002, "phase 1")
    device.assert_idle()
    gradient = pool(device, GRAD, SHAPE)
    np.testing.assert_allclose(gradient, truth(GRAD, SHAPE), rtol=1e-6)
    for place in (0, 2):
        calls = [(good, [DATA, None], b"")] * 3
        calls[place] = bad, contents, b""
        reply, errors = device.execute_all(calls)
        assert isinstance(errors.pop(place), kind)
        assert errors == [None] * 2
        assert (reply.startswith if place else reply.endswith)(2 * gradient.tobytes())
    device.assert_idle()


def test_contents_that_are_no_contents(device: BlockingDevice) -> None:
    """Too few, too many, and an object without a buffer."""
    for kind, contents in ((ValueError, [DATA]), (ValueError, [DATA, None, None]), (TypeError, ["text", None])):
        with pytest.raises(kind):
            device.execute(plan(GRAD.shape, SHAPE), contents)
        with pytest.raises(kind):
            device.execute_all([(plan(GRAD.shape, SHAPE), contents, b"")])


@pytest.mark.parametrize("size", [2**62, 2**63 - 1, 2**50])
def test_reply_that_no_memory_holds(device: BlockingDevice, size: int) -> None:
    outputs = [returned(SHAPE, size)]
    with pytest.raises((MemoryError, OverflowError)):
        pool(device, GRAD, SHAPE, outputs=outputs)
    with pytest.raises((MemoryError, OverflowError)):
        device.execute_all([(plan(GRAD.shape, SHAPE, outputs=outputs), [DATA, None], b"x")] * 2)
    device.assert_idle()


def test_an_empty_call_is_zeros(device: BlockingDevice) -> None:
    """The device is not asked: an operator leaves the output untouched if an input is empty."""
    gradient = pool(device, np.empty((1, 0, 4), np.float32), SHAPE, b"prefix", is_empty=True)
    np.testing.assert_array_equal(gradient, np.zeros(SHAPE))
    size = 4 * 7 * 9
    for on_host in (False, True):
        (target,) = device.stage(size, on_host=on_host)
        target.write(0, b"\x55" * size)
        device.execute_into(plan((1, 0, 4), SHAPE, is_empty=True), [b"", None], target)
        assert target.read(0, size) == bytes(size)


@in_fork(devices=2)
def test_two_devices_in_one_process() -> None:
    library = open_library()
    devices = [BlockingDevice(library, index, pool_limit_bytes=1 << 20, stream_limit=1) for index in range(2)]
    for device in (*devices, *reversed(devices)):
        np.testing.assert_allclose(pool(device, GRAD, SHAPE), truth(GRAD, SHAPE), rtol=1e-6)
    assert [device.native.index for device in devices] == [0, 1]
    assert [(device.state().stream_count, device.state().pool.allocated_bytes) for device in devices] == [(1, 0)] * 2


def test_nothing_is_no_plan_no_tensor_and_no_device(device: BlockingDevice, library: aclgrad_native.AclLibrary) -> None:
    call = plan((1, 1, 1), (1, 2, 2)), [b"grad", None]
    nothing: Any = None
    for method, *arguments in (
        (device.native.submit, None, nothing, [], 0.0),
        (device.native.submit_into, None, nothing, [], [], 0.0),
        (device.native.submit_into, None, *call, [nothing], 0.0),
        (device.native.submit_batch, None, [(nothing, [], b"")], 0.0),
        (partial(aclgrad_native.Device, pool_limit_bytes=None, stream_limit=1), nothing, 0, device.waiting.completions),
        (partial(aclgrad_native.Device, pool_limit_bytes=None, stream_limit=1), library, 0, nothing),
    ):
        with pytest.raises(TypeError):
            method(*arguments)
    assert len(device.execute(*call)) == 16


def test_a_short_prefix_is_read_from_memory_of_the_whole_size(
    device: BlockingDevice, library: aclgrad_native.AclLibrary
) -> None:
    """Host memory that ends earlier is not given to a device that may read to the end."""
    inputs = [((1, 2, 2), FLOAT32, True, None), ((1, 4, 4), FLOAT32, False, None)]
    call = plan((1, 2, 2), (1, 4, 4), inputs=inputs)

    def count_blocks(content: bytes) -> int:
        before = device.state().pool.allocation_count
        device.execute(call, [content, bytes(64)])
        return device.state().pool.allocation_count - before

    # A device that takes no host memory has a block for each input and for the output.
    assert (count_blocks(bytes(16)), count_blocks(bytes(4))) == ((0, 1) if library.host_pointers else (3, 3))
