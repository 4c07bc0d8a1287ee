"""What is larger or takes longer than a server or a client allows."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.tensors import DTYPES, TensorType, TensorView, view_of_array
from aclgrad.wire.messages import OperatorCall, encode_request
from tools.calling import AnyClient, maybe_await
from tools.raw_calls import error_of, execute, execute_batch, open_channel
from tools.serving import Server

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


async def test_request_over_the_limit_names_it(narrow: AnyClient, narrow_server: Server) -> None:
    """By gRPC's core, which is all that other clients see; our own sends chunks."""
    call = OperatorCall("adaptive_avg_pool2d_backward", (view_of_array("grad_output", np.zeros(2**18)),), {})
    with open_channel(narrow_server) as channel, pytest.raises(grpc.RpcError) as caught:
        execute(channel, call)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert f"Received message larger than max ({len(encode_request(call))} vs. {MEBIBYTE})" in caught.value.details()
    await assert_still_serves(narrow)


async def test_reply_over_the_limit_names_chunks_and_the_knob(narrow: AnyClient, narrow_server: Server) -> None:
    shape = TensorView("self", TensorType(DTYPES["float32"], (1, 512, 513)))
    call = OperatorCall("adaptive_avg_pool2d_backward", (view_of_array("grad_output", SMALL), shape), {})
    with open_channel(narrow_server) as channel:
        for execute_any in (execute, lambda channel, call: execute_batch(channel, [call])):
            with pytest.raises(grpc.RpcError) as caught:
                execute_any(channel, call)
            error = error_of(caught.value)
            assert isinstance(error, aclgrad.LimitExceededError)
            assert error.field == ("outputs[out]" if execute_any is execute else "calls")
            assert error.remedy
            assert "ExecuteOperatorChunked" in error.remedy
            assert "--max-message-bytes" in error.remedy
            assert error.metadata["max_message_bytes"] == str(MEBIBYTE)
    await assert_still_serves(narrow)


async def test_tensor_over_the_limit_names_the_knob(narrow: AnyClient) -> None:
    with pytest.raises(aclgrad.LimitExceededError, match="--max-tensor-bytes") as caught:
        await maybe_await(narrow.adaptive_avg_pool2d_backward(SMALL, (1, 2048, 2049)))
    assert caught.value.field == "inputs[self].shape"
    await assert_still_serves(narrow)


async def test_call_over_the_pool_names_the_knob(narrow: AnyClient) -> None:
    with pytest.raises(aclgrad.LimitExceededError, match="--pool-bytes") as caught:
        await maybe_await(narrow.adaptive_avg_pool2d_backward(SMALL, (1, 320, 320)))
    assert not isinstance(caught.value, aclgrad.RetryableError), "to try again is of no use"
    assert caught.value.field == "call"
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
