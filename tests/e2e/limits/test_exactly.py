"""What is as large as a limit passes, and one byte or one field more does not."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.tensors import DTYPES, TensorType, TensorView, view_of_array
from aclgrad.wire.messages import OperatorCall, decode_response, encode_batch, encode_request, response_prefix
from aclgrad_server.limits import SMALL_BYTES, SMALL_POOL_BYTES
from tests.client.wire.wire_format import key, varint
from tests.e2e.conftest import NARROW
from tools.raw_calls import (
    SERVICE,
    assert_idle,
    error_of,
    execute_chunked,
    open_channel,
    send_batch,
)
from tools.serving import Server

OPERATOR = "adaptive_avg_pool2d_backward"
TENSOR_BYTES, MESSAGE_BYTES = NARROW["tensor"], NARROW["message"]
FIELDS = 20_000


@pytest.fixture
def channel(narrow_server: Server) -> Iterator[grpc.Channel]:
    with open_channel(narrow_server) as channel:
        yield channel


def pooling(output_elements: int) -> OperatorCall:
    grad_output = view_of_array("grad_output", np.ones((1, 1, 1), np.float32))
    output = TensorType(grad_output.type.dtype, (1, 1, output_elements))
    return OperatorCall(OPERATOR, (grad_output, TensorView("self", output)), {})


def padded(request: bytes, size_bytes: int) -> bytes:
    """Returns the request with a field that nobody knows, so large that the whole has this size."""
    head = key(99, 2)
    left = size_bytes - len(request) - len(head)
    length = varint(left - 3, padding=3 - len(varint(left - 3)))
    return request + head + length + bytes(left - 3)


def request_of_size(size_bytes: int) -> bytes:
    """Returns a legal request of exactly this size, most of it the data of a tensor."""
    values = np.zeros((1, 1, (size_bytes - 1000) // 4), np.float32)
    inputs = (view_of_array("grad_output", values), TensorView("self", view_of_array("", values[..., :1]).type))
    return padded(encode_request(OperatorCall(OPERATOR, inputs, {})), size_bytes)


def send(channel: grpc.Channel, request: bytes) -> int:
    """Returns the size of the output of a unary call."""
    reply = channel.unary_unary(SERVICE + "ExecuteOperator")(request, timeout=60)
    return decode_response(reply)[0].type.size_bytes


def assert_too_large_for_the_core(call: pytest.ExceptionInfo, size_bytes: int) -> None:
    """The words of gRPC's core, which are all that other clients see; our own send chunks."""
    assert call.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert f"Received message larger than max ({size_bytes} vs. {MESSAGE_BYTES})" in call.value.details()


def assert_names_the_limit(call: pytest.ExceptionInfo, field: str) -> None:
    error = error_of(call.value)
    assert isinstance(error, aclgrad.LimitExceededError)
    assert error.field == field
    assert "ExecuteOperatorChunked" in error.remedy
    assert "--max-message-bytes" in error.remedy
    assert error.metadata["max_message_bytes"] == str(MESSAGE_BYTES)


def test_status_follows_the_settings(narrow_server: Server) -> None:
    with aclgrad.Client(narrow_server.address) as client:
        status = client.server_status()
    assert (status.queue.running_limit, status.queue.waiting_limit) == (NARROW["streams"], NARROW["waiting"])
    assert (status.limits.message_bytes, status.limits.tensor_bytes) == (MESSAGE_BYTES, TENSOR_BYTES)
    assert status.devices[0].claimed_bytes_limit == NARROW["pool"]
    # Small calls have more.
    assert status.devices[0].pool.limit_bytes == NARROW["pool"] + SMALL_POOL_BYTES + NARROW["streams"] * SMALL_BYTES


def test_a_request_of_the_size_of_the_limit(channel: grpc.Channel) -> None:
    assert len(request_of_size(MESSAGE_BYTES)) == MESSAGE_BYTES
    assert send(channel, request_of_size(MESSAGE_BYTES)) == 4
    with pytest.raises(grpc.RpcError) as caught:
        send(channel, request_of_size(MESSAGE_BYTES + 1))
    assert_too_large_for_the_core(caught, MESSAGE_BYTES + 1)


def test_a_reply_of_the_size_of_the_limit(channel: grpc.Channel) -> None:
    prefix = response_prefix("out", TensorType(DTYPES["float32"], (1, 1, 250_000)))
    assert len(prefix) + 1_000_000 == MESSAGE_BYTES
    assert send(channel, encode_request(pooling(250_000))) == 1_000_000
    with pytest.raises(grpc.RpcError) as caught:
        send(channel, encode_request(pooling(250_001)))
    assert_names_the_limit(caught, "outputs[out]")


def test_a_batch_of_the_size_of_the_limit(channel: grpc.Channel) -> None:
    batch = encode_batch([request_of_size(MESSAGE_BYTES // 2), request_of_size(MESSAGE_BYTES // 2 - 2000)])
    assert send_batch(channel, padded(batch, MESSAGE_BYTES)) == [np.float32(0).tobytes()] * 2
    with pytest.raises(grpc.RpcError) as caught:
        send_batch(channel, padded(batch, MESSAGE_BYTES + 1))
    assert_too_large_for_the_core(caught, MESSAGE_BYTES + 1)


def test_a_batch_whose_replies_are_too_large_together(channel: grpc.Channel, narrow_server: Server) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        send_batch(channel, encode_batch([encode_request(pooling(150_000))] * 2))
    assert_names_the_limit(caught, "calls")
    assert_idle(narrow_server)


def test_a_tensor_of_the_size_of_the_limit(channel: grpc.Channel) -> None:
    """In chunks, as it is larger than a message."""
    elements = TENSOR_BYTES // 4
    assert len(execute_chunked(channel, pooling(elements), ["grad_output"], 2**19)) == TENSOR_BYTES
    with pytest.raises(grpc.RpcError) as caught:
        execute_chunked(channel, pooling(elements + 1), ["grad_output"], 2**19)
    error = error_of(caught.value)
    assert isinstance(error, aclgrad.LimitExceededError)
    assert error.field == "inputs[self].shape"
    assert "--max-tensor-bytes" in str(error)


def test_a_call_of_more_than_half_of_a_pool(narrow_server: Server) -> None:
    """It waits for its client, so others need the rest."""
    with aclgrad.Client(narrow_server.address, shape_only=False) as client:
        values = np.ones((3, 1050, 1050), np.float32)
        with pytest.raises(aclgrad.LimitExceededError, match="--max-call-bytes") as caught:
            client.adaptive_avg_pool2d_backward(values[:, :1024, :1024], values)
        assert not isinstance(caught.value, aclgrad.RetryableError), "to try again is of no use"
        assert client.server_status().devices[0].pool.allocated_bytes == 0


def test_calls_beyond_those_that_run_and_wait_are_refused_or_answered(narrow_server: Server) -> None:
    start = threading.Barrier(16)

    def call(client: aclgrad.Client) -> np.ndarray | aclgrad.ServerBusyError:
        start.wait(60)
        try:
            return client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 1024, 1024))
        except aclgrad.ServerBusyError as error:
            return error

    with aclgrad.Client(narrow_server.address, retries=0) as client, ThreadPoolExecutor(16) as threads:
        outcomes = list(threads.map(call, [client] * 16))
        refused = [each for each in outcomes if isinstance(each, aclgrad.ServerBusyError)]
        answered = [each for each in outcomes if isinstance(each, np.ndarray)]
        assert answered
        assert all(each.sum() == pytest.approx(1) for each in answered)
        assert all(each.retry_after_s and each.metadata["limit"] for each in refused)
    assert_idle(narrow_server)
