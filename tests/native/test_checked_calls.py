"""Calls whose values are checked before a device reads them, on devices of both kinds."""

from typing import Any

import numpy as np
import pytest

import aclgrad_native
from aclgrad.masks import Pooling as PoolingRule
from aclgrad.masks import argmax_of_input
from aclgrad_native import (
    ArgmaxCheck,
    BoolCheck,
    CallTemplate,
    Gathering,
    IndexCheck,
    Input,
    InvalidValueError,
    MaskEncoding,
    View,
)

from .blocking import BlockingDevice
from .pooling import FLOAT32, returned

INT8, INT64 = 2, 9
"""aclDataType."""


LIBRARIES = {"host_pointers": {}, "copies": {"host_pointers": False}}
GRAD = np.random.default_rng(0).standard_normal((1, 2, 1, 4, 6), np.float32)
INDICES = np.random.default_rng(1).integers(0, 24, (1, 2, 1, 3, 5))
UNPOOLED_BYTES = 4 * INDICES.size


def unpool(bound: int = 24) -> CallTemplate:
    """The gradient of max unpooling, whose third input holds positions in planes of 24 cells."""
    inputs = [
        Input(GRAD.shape, FLOAT32),
        Input(INDICES.shape, FLOAT32),
        Input(INDICES.shape, INT64, check=IndexCheck(bound)),
    ]
    attributes = [[1, 4, 6], [1, 1, 1], [0, 0, 0]]
    return CallTemplate("aclnnMaxUnpool3dBackward", inputs, attributes, [returned(INDICES.shape, UNPOOLED_BYTES)])


def unpooled() -> np.ndarray:
    flat = np.take_along_axis(GRAD.reshape(2, -1), INDICES.reshape(2, -1), axis=1)
    return flat.reshape(INDICES.shape)


def spoiled() -> bytes:
    indices = INDICES.copy()
    indices.flat[17] = 24
    return indices.tobytes()


def gradient(reply: bytes, shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(reply, np.float32).reshape(shape)


def assert_refused(error: Exception | None, input: int, text: str) -> None:
    assert isinstance(error, InvalidValueError)
    assert isinstance(error, ValueError)
    assert (error.input, error.work, error.limit) == (input, None, None)
    assert text in str(error)


def test_a_bad_value_fails_its_call_of_a_batch_alone(device: BlockingDevice) -> None:
    contents = [[GRAD.tobytes(), None, indices] for indices in (INDICES.tobytes(), spoiled(), INDICES.tobytes())]
    with pytest.raises(InvalidValueError) as caught:
        device.execute(unpool(), contents[1])
    assert_refused(caught.value, 2, "has 24 at position 17, outside [0, 24)")
    device.assert_idle()
    reply, errors = device.execute_all([(unpool(), each, b"") for each in contents])
    assert [errors[0], errors[2]] == [None, None]
    assert_refused(errors[1], 2, "at position 17")
    for start in (0, 2 * UNPOOLED_BYTES):
        np.testing.assert_array_equal(gradient(reply[start : start + UNPOOLED_BYTES], INDICES.shape), unpooled())


def staged(device: BlockingDevice, indices: bytes, on_host: bool) -> tuple[Any, Any]:
    (grad,) = device.stage(GRAD.nbytes)
    (positions,) = device.stage(len(indices), on_host=on_host)
    for tensor, data in ((grad, GRAD.tobytes()), (positions, indices)):
        tensor.write(0, data)
    return grad, positions


@pytest.mark.parametrize("output_on_host", [False, True])
def test_tensors_staged_on_the_host_are_checked(device: BlockingDevice, output_on_host: bool) -> None:
    (target,) = device.stage(UNPOOLED_BYTES, on_host=output_on_host)
    grad, positions = staged(device, INDICES.tobytes(), on_host=True)
    device.execute_into(unpool(), [grad, None, positions], target)
    np.testing.assert_array_equal(gradient(target.read(0, UNPOOLED_BYTES), INDICES.shape), unpooled())
    # The client may send other values next; it is the bytes of this call that count.
    positions.write(0, spoiled())
    with pytest.raises(InvalidValueError) as caught:
        device.execute_into(unpool(), [grad, None, positions], target)
    assert_refused(caught.value, 2, "at position 17")
    del grad, positions, target, caught
    device.assert_idle()


def test_values_that_cannot_be_checked_are_refused(device: BlockingDevice) -> None:
    """Those that are on the device already, and those that are not given."""
    (target,) = device.stage(UNPOOLED_BYTES)
    grad, positions = staged(device, INDICES.tobytes(), on_host=False)
    for content in (positions, None):
        with pytest.raises(ValueError, match=r"input 2 .* host memory"):
            device.execute_into(unpool(), [grad, None, content], target)
    with pytest.raises(ValueError, match=r"input 2 .* host memory"):
        device.execute(unpool(), [GRAD.tobytes(), None, None])


POOLING = PoolingRule((8, 10), (2, 2), (2, 2), (0, 0))
VALUES = np.random.default_rng(3).standard_normal((2, 3, 8, 10)).astype(np.float32)


def max_pool(encoding: MaskEncoding, item_bytes: int) -> CallTemplate:
    """The gradient of max pooling from an argmax, of which the device reads the beginning of a mask."""
    pooled = (2, 3, 4, 5)
    native = aclgrad_native.Pooling(POOLING.input_size, POOLING.output_size, (2, 2), (2, 2), (0, 0))
    mask = (2, 3, 4, (4 * 5 // 16 + 2) * 32)
    inputs = [
        Input(pooled, FLOAT32),
        Input(VALUES.shape, FLOAT32),
        Input(mask, INT8, is_prefix=True, check=ArgmaxCheck(native, item_bytes, 2, 3, encoding)),
    ]
    attributes: list[Any] = [[2, 2], [2, 2], [0, 0], [1, 1], False]
    return CallTemplate("aclnnMaxPool2dWithMaskBackward", inputs, attributes, [returned(VALUES.shape)])


@pytest.mark.parametrize(("encoding", "dtype"), [(MaskEncoding.NONE, np.int32), (MaskEncoding.INT32, np.int64)])
@pytest.mark.parametrize("on_host", [False, True], ids=["sent", "staged"])
def test_an_argmax_is_given_in_the_form_that_the_device_reads(
    device: BlockingDevice, encoding: MaskEncoding, dtype: type, on_host: bool
) -> None:
    pooled, argmax = argmax_of_input(VALUES, POOLING)
    data = argmax.astype(dtype).tobytes()
    grad = np.arange(pooled.size, dtype=np.float32).reshape(pooled.shape)
    (target,) = device.stage(VALUES.nbytes)
    content: Any = data
    if on_host:
        (content,) = device.stage(len(data), on_host=True)
        content.write(0, data)
    device.execute_into(max_pool(encoding, argmax.astype(dtype).itemsize), [grad.tobytes(), None, content], target)
    expected = np.zeros((2, 3, 80), np.float32)
    np.put_along_axis(expected, argmax.reshape(2, 3, -1).astype(np.int64), grad.reshape(2, 3, -1), axis=2)
    np.testing.assert_array_equal(gradient(target.read(0, VALUES.nbytes), (2, 3, 80)), expected)


@pytest.mark.parametrize("size", [0, 1, 7, 4096, 4097, 10_000])
def test_bools_are_0_or_1(size: int) -> None:
    bools = np.arange(size + 1, dtype=np.uint8) % 2
    assert BoolCheck().apply(bools[1:].data) is None, "also at an odd address"
    for position, value in ((0, 2), (size - 1, 255), (size // 2, 3)):
        if size:
            wrong = bools[1:].copy()
            wrong[position] = value
            with pytest.raises(
                InvalidValueError,
                match=rf"has {np.uint8(value).view(np.int8)} at position {position}, outside \[0, 2\)",
            ):
                BoolCheck().apply(wrong.data)


def test_an_index_is_checked_where_its_view_is(device: BlockingDevice) -> None:
    """Only what the view has is read, in its order: here one plane for both channels, and every third element."""
    storage = np.full(48, 99, np.int64)
    storage[3::3] = INDICES[0, 0].reshape(-1)
    checked = Input(
        INDICES.shape,
        INT64,
        check=IndexCheck(24),
        gathering=Gathering(INDICES.shape, 8, View(3, (0, 0, 0, 15, 3), storage.size)),
    )
    inputs = [Input(GRAD.shape, FLOAT32), Input(INDICES.shape, FLOAT32), checked]
    attributes = [[1, 4, 6], [1, 1, 1], [0, 0, 0]]
    plan = CallTemplate("aclnnMaxUnpool3dBackward", inputs, attributes, [returned(INDICES.shape, UNPOOLED_BYTES)])
    found = gradient(device.execute(plan, [GRAD.tobytes(), None, storage.tobytes()]), INDICES.shape)
    expected = np.take_along_axis(GRAD.reshape(2, -1), np.tile(INDICES[0, 0].reshape(1, -1), (2, 1)), axis=1)
    np.testing.assert_array_equal(found, expected.reshape(INDICES.shape))
    storage[-3] = 24
    with pytest.raises(InvalidValueError, match="has 24 at position 14"):
        device.execute(plan, [GRAD.tobytes(), None, storage.tobytes()])
    with pytest.raises(ValueError, match="the view is of 384 bytes; 376 are given"):
        device.execute(plan, [GRAD.tobytes(), None, storage[:-1].tobytes()])
