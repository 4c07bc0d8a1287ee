"""Tensors of more than 2 GiB, which no message holds, there and back: `make test-huge`.

It takes a minute and 10 GiB of memory in all.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from tools.calling import maybe_await
from tools.serving import Server

ROWS, COLUMNS = 2**14, 36 * 2**10
SIZE_BYTES = 4 * ROWS * COLUMNS
MAX_OF_THE_TENSOR = 1.3
"""A server that held a tensor twice would have 2; the interpreter, gRPC and chunks in flight are 0.1."""
TIMEOUT_S = 600

Connect = type[aclgrad.Client] | type[aclgrad.AsyncClient]

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.parametrize("connect", [aclgrad.Client, aclgrad.AsyncClient], ids=["sync", "async"]),
]


def peak_bytes(server: Server) -> int:
    """Returns the largest resident memory that the server ever had."""
    status = Path(f"/proc/{server.process_id}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


async def call(connect: Connect, grad_output: Any, shape: tuple[int, ...]) -> np.ndarray:
    with Server("--call-timeout-s", str(TIMEOUT_S)) as server:
        client = connect(server.address, timeout_s=TIMEOUT_S)
        gradient = await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, shape))
        await maybe_await(client.close())
        assert peak_bytes(server) < MAX_OF_THE_TENSOR * SIZE_BYTES
    return gradient


async def test_a_huge_request(connect: Connect) -> None:
    """The corners stand in quarters of their own, and sums of small integers are exact."""
    assert SIZE_BYTES > 2**31
    grad_output = np.empty((1, ROWS, COLUMNS), np.float32)
    grad_output[:] = 0
    grad_output[0, :: ROWS - 1, :: COLUMNS - 1] = [[1, 2], [3, 4]]
    gradient = await call(connect, grad_output, (1, 2, 2))
    assert gradient.tolist() == [[[1, 2], [3, 4]]]


async def test_a_huge_reply(connect: Connect) -> None:
    """Each quarter of the input shares its gradient evenly, in powers of two."""
    quarters = np.array([[[1, 2], [4, 8]]], np.float32)
    grad_output = quarters * (ROWS // 2) * (COLUMNS // 2)
    gradient = await call(connect, grad_output, (1, ROWS, COLUMNS))
    assert gradient.shape == (1, ROWS, COLUMNS)
    for row, column in np.ndindex(2, 2):
        quarter = gradient[0, row * ROWS // 2 :, column * COLUMNS // 2 :][: ROWS // 2, : COLUMNS // 2]
        assert (quarter.min(), quarter.max()) == (quarters[0, row, column],) * 2
    assert gradient.flags.owndata
    assert gradient.flags.writeable
