"""What is as large as a limit passes, and one byte or one field more does not."""

from collections.abc import Iterator

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.tensors import TensorType, TensorView, view_of_array
from aclgrad.wire.limits import MAX_REST_BYTES
from aclgrad.wire.messages import OperatorCall, decode_response, encode_batch, encode_request, response_prefix
from tests.client.wire.wire_format import key, varint, varint_field
from tools.raw_calls import (
    SERVICE,
    assert_idle,
    chunked_messages,
    error_of,
    execute_chunked,
    open_channel,
    send_batch,
    send_chunked,
)
from tools.serving import Server

OPERATOR = "adaptive_avg_pool2d_backward"
TENSOR_BYTES = 4 * 300_000
MESSAGE_BYTES = len(response_prefix("out", TensorType(view_of_array("", np.ones(1, "f4")).type.dtype, (1, 1, 250_000))))
MESSAGE_BYTES += 4 * 250_000
FIELDS = 20_000


@pytest.fixture(scope="module")
def exact_server() -> Iterator[Server]:
    flags = ("--max-message-bytes", str(MESSAGE_BYTES), "--max-tensor-bytes", str(TENSOR_BYTES))
    with Server(*flags) as server:
        yield server
        assert_idle(server)


@pytest.fixture
def channel(exact_server: Server) -> Iterator[grpc.Channel]:
    with open_channel(exact_server) as channel:
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


def assert_exhausted(call: pytest.ExceptionInfo) -> None:
    assert call.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def assert_names_the_limit(call: pytest.ExceptionInfo) -> None:
    error = error_of(call.value)
    assert isinstance(error, aclgrad.LimitExceededError)
    assert "--max-message-bytes" in error.remedy


def test_a_request_of_the_size_of_the_limit(channel: grpc.Channel) -> None:
    assert len(request_of_size(MESSAGE_BYTES)) == MESSAGE_BYTES
    assert send(channel, request_of_size(MESSAGE_BYTES)) == 4
    with pytest.raises(grpc.RpcError) as caught:
        send(channel, request_of_size(MESSAGE_BYTES + 1))
    assert_exhausted(caught)


def test_a_reply_of_the_size_of_the_limit(channel: grpc.Channel) -> None:
    assert send(channel, encode_request(pooling(250_000))) == 1_000_000
    with pytest.raises(grpc.RpcError) as caught:
        send(channel, encode_request(pooling(250_001)))
    assert_names_the_limit(caught)


def test_a_batch_of_the_size_of_the_limit(channel: grpc.Channel) -> None:
    batch = encode_batch([request_of_size(MESSAGE_BYTES // 2), request_of_size(MESSAGE_BYTES // 2 - 2000)])
    assert send_batch(channel, padded(batch, MESSAGE_BYTES)) == [np.float32(0).tobytes()] * 2
    with pytest.raises(grpc.RpcError) as caught:
        send_batch(channel, padded(batch, MESSAGE_BYTES + 1))
    assert_exhausted(caught)


def test_a_batch_whose_replies_are_too_large_together(channel: grpc.Channel, exact_server: Server) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        send_batch(channel, encode_batch([encode_request(pooling(150_000))] * 2))
    assert_names_the_limit(caught)
    assert_idle(exact_server)


def test_a_tensor_of_the_size_of_the_limit(channel: grpc.Channel) -> None:
    """In chunks, as it is larger than a message."""
    elements = TENSOR_BYTES // 4
    assert len(execute_chunked(channel, pooling(elements), ["grad_output"], 2**19)) == TENSOR_BYTES
    with pytest.raises(grpc.RpcError) as caught:
        execute_chunked(channel, pooling(elements + 1), ["grad_output"], 2**19)
    assert isinstance(error_of(caught.value), aclgrad.LimitExceededError)


def test_chunks_of_the_size_of_the_limit(channel: grpc.Channel, exact_server: Server) -> None:
    assert send_chunked(channel, chunked_messages(pooling(1), ["grad_output"], 2**20))
    with pytest.raises(grpc.RpcError) as caught:
        send_chunked(channel, chunked_messages(pooling(1), ["grad_output"], 2**20 + 1))
    error = error_of(caught.value)
    assert isinstance(error, aclgrad.InvalidFieldError)
    assert error.field == "header.chunk_size_bytes"
    assert_idle(exact_server)


def test_as_many_bytes_beside_the_data_as_the_limit(channel: grpc.Channel) -> None:
    request = encode_request(pooling(1))
    # An index of four bytes stands for the data of the one input that has some.
    rest_bytes = len(request)
    assert send(channel, padded(request, len(request) + MAX_REST_BYTES - rest_bytes)) == 4
    with pytest.raises(grpc.RpcError) as caught:
        send(channel, padded(request, len(request) + MAX_REST_BYTES - rest_bytes + 1))
    assert isinstance(error_of(caught.value), aclgrad.LimitExceededError)


def test_as_many_fields_as_the_limit(channel: grpc.Channel) -> None:
    padding = varint_field(15, 0)
    request = encode_request(pooling(1))
    fields = 1 + len(pooling(1).inputs)
    assert send(channel, request + padding * (FIELDS - fields)) == 4
    with pytest.raises(grpc.RpcError) as caught:
        send(channel, request + padding * (FIELDS - fields + 1))
    assert isinstance(error_of(caught.value), aclgrad.MalformedRequestError)
