"""Calls of the one operator that needs no more than shapes, for tests of what surrounds it."""

from typing import Any

import numpy as np

import aclgrad_native

SYMBOL = "aclnnAdaptiveAvgPool2dBackward"
FLOAT32 = 0


def pool(
    device: aclgrad_native.Device,
    grad_output: np.ndarray,
    shape: tuple[int, ...],
    prefix: bytes = b"",
    *,
    timeout_ms: int = 60_000,
    **changes: Any,
) -> np.ndarray:
    """Returns the gradient of adaptive average pooling over a float32 tensor of this shape."""
    reply = aclgrad_native.ReplyBuffer([(prefix, int(np.prod(shape)) * 4)])
    arguments = {
        "symbol": SYMBOL,
        "inputs": [(grad_output.shape, FLOAT32, grad_output.tobytes()), (shape, FLOAT32, None)],
        "attributes": [],
        "output_shape": shape,
        "output_dtype": FLOAT32,
        "output": reply.parts()[0],
        "prefixes": [],
    }
    device.execute(tuple((arguments | changes).values()), timeout_ms)
    return np.frombuffer(reply.finish(), np.float32, offset=len(prefix)).reshape(shape)
