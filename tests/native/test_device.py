"""Operators on a device: what they compute, what is refused, and what is left behind."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad_native
from aclgrad import reference
from aclgrad_native import AclError, Device, ReplyBuffer

from .pooling import FLOAT32, pool

GRAD = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
SHAPE = (1, 7, 9)
UNSENT = (SHAPE, FLOAT32, None)
SENT = (GRAD.shape, FLOAT32, GRAD.tobytes())


def truth(grad_output: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return reference.adaptive_avg_pool2d_backward(grad_output, shape)


def test_gradient_is_written_behind_the_prefix(device: Device) -> None:
    np.testing.assert_allclose(
        pool(
            device,
            GRAD,
            SHAPE,
            b"prefix",
        ),
        truth(GRAD, SHAPE),
        rtol=1e-6,
    )


@pytest.mark.parametrize("offset", range(1, 5))
def test_input_may_start_at_any_byte(device: Device, offset: int) -> None:
    data = memoryview(bytearray(offset) + GRAD.tobytes())[offset:]
    gradient = pool(device, GRAD, SHAPE, inputs=[(GRAD.shape, FLOAT32, data), UNSENT])
    np.testing.assert_array_equal(gradient, pool(device, GRAD, SHAPE))


def test_device_tells_what_it_is(device: Device) -> None:
    assert device.index == 0
    assert device.soc_name.startswith("Ascend910B")
    free_bytes, total_bytes = device.memory()
    assert 0 < free_bytes <= total_bytes


@pytest.mark.parametrize("index", [-1, 1, 99])
def test_index_that_no_device_has(library: aclgrad_native.AclLibrary, index: int) -> None:
    with pytest.raises(AclError) as caught:
        Device(library, index, pool_limit_bytes=None, stream_limit=1)
    assert caught.value.code == 107001


BAD_CALLS: dict[str, dict[str, Any]] = {
    "no_input": {"inputs": []},
    "one_input": {"inputs": [SENT]},
    "three_inputs": {"inputs": [SENT, UNSENT, UNSENT]},
    "an_attribute": {"attributes": [1]},
    "short_data": {"inputs": [(GRAD.shape, FLOAT32, bytes(47)), UNSENT]},
    "long_data": {"inputs": [(GRAD.shape, FLOAT32, bytes(49)), UNSENT]},
    "negative_size": {"inputs": [SENT, ((1, -7, 9), FLOAT32, None)]},
    "overflow": {"inputs": [SENT, ((2**33, 2**33), FLOAT32, None)]},
    "no_data_type": {"inputs": [SENT, (SHAPE, 9999, None)]},
    "short_reply": {"output": ReplyBuffer([(b"", 4)]).parts()[0]},
    "long_reply": {"output": ReplyBuffer([(b"", 1000)]).parts()[0]},
}


@pytest.mark.parametrize("changes", BAD_CALLS.values(), ids=BAD_CALLS)
def test_call_that_does_not_fit_is_a_value_error_and_leaves_nothing(device: Device, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"takes|has|negative|overflow|no data type"):
        pool(device, GRAD, SHAPE, **changes)
    assert device.pool_statistics().allocated_bytes == 0
    assert device.leased_stream_count == 0
    np.testing.assert_allclose(pool(device, GRAD, SHAPE), truth(GRAD, SHAPE), rtol=1e-6)


def test_operator_that_has_no_row_is_an_index_error(device: Device) -> None:
    with pytest.raises(IndexError):
        pool(device, GRAD, SHAPE, symbol="aclnnNothing")


def test_call_that_the_operator_refuses_is_an_acl_error_and_leaves_nothing(device: Device) -> None:
    with pytest.raises(AclError) as caught:
        pool(device, GRAD, SHAPE, inputs=[SENT, ((2, 7, 9), FLOAT32, None)])
    assert caught.value.code == 161002
    assert caught.value.call == "phase 1"
    assert device.pool_statistics().allocated_bytes == 0
    assert device.leased_stream_count == 0


def test_object_without_a_buffer_is_a_type_error(device: Device) -> None:
    with pytest.raises(TypeError):
        pool(device, GRAD, SHAPE, inputs=[(GRAD.shape, FLOAT32, "text"), UNSENT])


def test_many_threads_share_a_device_and_get_the_same_bits(device: Device) -> None:
    grad_output = np.random.default_rng(1).standard_normal((8, 16, 16), np.float32)
    shape = (8, 61, 67)
    start = threading.Barrier(8)

    def call() -> list[bytes]:
        start.wait(60)
        return [pool(device, grad_output, shape).tobytes() for _ in range(10)]

    with ThreadPoolExecutor(8) as threads:
        results = [each for outcome in [threads.submit(call) for _ in range(8)] for each in outcome.result(60)]
    assert set(results) == {pool(device, grad_output, shape).tobytes()}
    assert device.stream_count <= 2
    assert device.leased_stream_count == 0
    assert device.pool_statistics().allocated_bytes == 0


TWO_DEVICES = """
import sys
import numpy as np
import aclgrad_native
from aclgrad import reference
from tests.native.pooling import pool
library = aclgrad_native.open("host", sys.argv[1])
devices = [aclgrad_native.Device(library, index, pool_limit_bytes=1 << 20, stream_limit=1) for index in range(2)]
grad_output = np.arange(4, dtype=np.float32).reshape(1, 2, 2)
for device in (*devices, *reversed(devices)):
    gradient = pool(device, grad_output, (1, 3, 3))
    np.testing.assert_allclose(gradient, reference.adaptive_avg_pool2d_backward(grad_output, (1, 3, 3)), rtol=1e-6)
print(*[(device.index, device.stream_count, device.pool_statistics().allocated_bytes) for device in devices])
"""


def test_two_devices_in_one_process(tmp_path: Path, run_program: Callable[..., str]) -> None:
    config = tmp_path / "acl.json"
    config.write_text('{"host": {"devices": 2}}')
    assert run_program(TWO_DEVICES, str(config)) == "(0, 1, 0) (1, 1, 0)\n"
