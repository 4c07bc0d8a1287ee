"""What is larger or takes longer than a server or a client allows."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aclgrad
from tests.calling import AnyClient, maybe_await
from tests.serving import Server

SMALL = np.ones((1, 1, 1), np.float32)
MEBIBYTE = 1 << 20
POOL_BYTES = MEBIBYTE // 2
"""Fits no call that makes a reply of the limit of messages."""


@pytest.fixture(scope="module")
def narrow_server() -> Iterator[Server]:
    flags = {"message": MEBIBYTE, "tensor": 16 * MEBIBYTE}
    words = [word for name, size in flags.items() for word in (f"--max-{name}-bytes", str(size))]
    with Server(*words, "--pool-bytes", str(POOL_BYTES)) as server:
        yield server


@pytest.fixture
def narrow(connect: Callable[..., AnyClient], narrow_server: Server) -> AnyClient:
    return connect(narrow_server.address)


async def assert_still_serves(client: AnyClient) -> None:
    status = await maybe_await(client.server_status())
    assert status.devices[0].pool.allocated_bytes == 0
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(SMALL, (1, 2, 2)))
    assert gradient.tolist() == [[[0.25, 0.25], [0.25, 0.25]]]


async def test_request_over_the_limit_names_the_knob(narrow: AnyClient) -> None:
    with pytest.raises(aclgrad.MessageTooLargeError, match="--max-message-bytes") as caught:
        await maybe_await(narrow.adaptive_avg_pool2d_backward(np.zeros((1, 512, 513), np.float32), (1, 1, 1)))
    assert caught.value.metadata["limit"] == str(MEBIBYTE)
    assert int(caught.value.metadata["size"]) > MEBIBYTE
    await assert_still_serves(narrow)


async def test_reply_over_the_limit_names_the_knob(narrow: AnyClient) -> None:
    with pytest.raises(aclgrad.LimitExceededError, match="--max-message-bytes") as caught:
        await maybe_await(narrow.adaptive_avg_pool2d_backward(SMALL, (1, 512, 513)))
    assert caught.value.field == "outputs[out]"
    await assert_still_serves(narrow)


async def test_tensor_over_the_limit_names_the_knob(narrow: AnyClient) -> None:
    with pytest.raises(aclgrad.LimitExceededError, match="--max-tensor-bytes") as caught:
        await maybe_await(narrow.adaptive_avg_pool2d_backward(SMALL, (1, 2048, 2049)))
    assert caught.value.field == "inputs[self].shape"
    await assert_still_serves(narrow)


async def test_call_over_the_pool_names_the_knob(narrow: AnyClient) -> None:
    with pytest.raises(aclgrad.DeviceMemoryError, match="--pool-bytes") as caught:
        await maybe_await(narrow.adaptive_avg_pool2d_backward(SMALL, (1, 320, 320)))
    assert caught.value.retry_after_s is None
    assert caught.value.metadata["limit"] == str(POOL_BYTES)
    await assert_still_serves(narrow)


async def test_time_limit_of_the_client_passes(connect: Callable[..., Any]) -> None:
    # A server of its own: it may still work on the call when the client has given up.
    with Server() as server:
        client = connect(server.address, timeout_s=1e-6)
        with pytest.raises(aclgrad.DeadlinePassedError):
            await maybe_await(client.adaptive_avg_pool2d_backward(SMALL, (1, 2048, 2048)))
        gradient = await maybe_await(client.adaptive_avg_pool2d_backward(SMALL, (1, 1, 1), timeout_s=60))
        assert gradient.tolist() == [[[1.0]]]
