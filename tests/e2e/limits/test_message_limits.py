"""Calls and batches larger than the messages of their server: its clients learn the limit and send them otherwise."""

from collections.abc import Callable

import numpy as np
import pytest

from tools.calling import AnyClient, maybe_await, wait_until
from tools.serving import Server

Connect = Callable[..., AnyClient]
slow = pytest.mark.slow
LARGE = np.random.default_rng(1).standard_normal((2, 1024, 1024), np.float32)
BATCHED, CHUNKED = "BatchExecuteOperators", "ExecuteOperatorChunked"


@pytest.mark.parametrize(
    ("grad_output", "shape"),
    [
        pytest.param(LARGE[:1, :600, :500], (1, 3, 2), id="request"),
        pytest.param(LARGE[:1, :2, :3], (1, 600, 500), id="reply"),
        pytest.param(LARGE, LARGE.shape, id="larger_than_a_chunk", marks=slow),
    ],
)
async def test_a_call(
    connect: Connect, server: Server, narrow_server: Server, grad_output: np.ndarray, shape: tuple[int, ...]
) -> None:
    """The client learns the limit from a refusal and sends no second message that exceeds it."""
    expected = await maybe_await(connect(server.address).adaptive_avg_pool2d_backward(grad_output, shape))
    client = connect(narrow_server.address, retries=0)
    ended, done = narrow_server.log.count(f"{CHUNKED} "), narrow_server.log.count(f"{CHUNKED} ok")
    for _ in range(2):
        gradient = await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, shape))
        assert np.array_equal(gradient, expected)
    wait_until(lambda: narrow_server.log.count(f"{CHUNKED} ok") == done + 2)
    assert narrow_server.log.count(f"{CHUNKED} ") <= ended + 3, "one attempt may have been refused"


async def test_a_batch(connect: Connect, server: Server, narrow_server: Server) -> None:
    """The client learns the limit from one refusal and sends several messages: two of these calls exceed one."""
    rng = np.random.default_rng(3)
    calls = [(rng.standard_normal((1, 380, 380), np.float32), (1, 380, 380)) for _ in range(5)]
    alone = connect(server.address)
    expected = [await maybe_await(alone.adaptive_avg_pool2d_backward(*call)) for call in calls]
    batch = connect(narrow_server.address, retries=0).batch()
    for call in calls:
        batch.adaptive_avg_pool2d_backward(*call)
    done = narrow_server.log.count(f"{BATCHED} ok")
    for gradient, each in zip(await maybe_await(batch.run()), expected, strict=True):
        assert np.array_equal(gradient, each)
    wait_until(lambda: narrow_server.log.count(f"{BATCHED} ok") == done + 5)
