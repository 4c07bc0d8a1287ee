"""Calls of an operator that needs only shapes, for tests of the code around operators."""

from typing import Any

import numpy as np

from aclgrad_native import CallTemplate, Input, OutputUse
from tests.native.blocking import TIMEOUT_S, BlockingDevice

SYMBOL = "aclnnAdaptiveAvgPool2dBackward"
FLOAT32 = 0


def returned(
    shape: tuple[int, ...], size_bytes: int | None = None, prefix: bytes = b""
) -> tuple[tuple[int, ...], int, int, bytes, OutputUse]:
    """Returns a float32 output that its caller gets, by default of the bytes of its shape."""
    count = 4 * int(np.prod(shape)) if size_bytes is None else size_bytes
    return shape, FLOAT32, count, prefix, OutputUse.RETURNED


def plan(pooled: tuple[int, ...], shape: tuple[int, ...], prefix: bytes = b"", /, **changes: Any) -> CallTemplate:
    """Returns the plan of a gradient of this shape; its inputs are the pooled gradient's values and nothing."""
    arguments = {
        "symbol": SYMBOL,
        "inputs": [Input(pooled, FLOAT32), Input(shape, FLOAT32)],
        "attributes": [],
        "outputs": [returned(shape, prefix=prefix)],
    }
    return CallTemplate(**(arguments | changes))


def pool(
    device: BlockingDevice,
    grad_output: np.ndarray,
    shape: tuple[int, ...],
    prefix: bytes = b"",
    *,
    timeout_s: float = TIMEOUT_S,
    contents: list[Any] | None = None,
    **changes: Any,
) -> np.ndarray:
    """Returns the gradient of adaptive average pooling over a float32 tensor of this shape."""
    reply = device.execute(
        plan(grad_output.shape, shape, prefix, **changes), contents or [grad_output.tobytes(), None], timeout_s
    )
    assert reply.startswith(prefix)
    return np.frombuffer(reply, np.float32, offset=len(prefix)).reshape(shape)


def assert_pooled(device: BlockingDevice, shape: tuple[int, int, int], scale: int) -> None:
    """Each window has so many rows, which share its gradient."""
    grad_output = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    larger = (shape[0], shape[1] * scale, shape[2])
    assert (pool(device, grad_output, larger) == grad_output.repeat(scale, 1) / scale).all()
