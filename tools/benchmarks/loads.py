"""The calls that are measured, each as a function that makes one caller: what a thread of a load process repeats.

A caller sends bytes that were made once and looks at no more of the reply than its length, so that the server and the
transport are measured; `client` and `stub` are the exceptions, with numpy arrays in and out, as users have it.
"""

import secrets
from collections.abc import Callable, Iterator
from functools import lru_cache
from multiprocessing.shared_memory import SharedMemory as Segment
from typing import Any, Final

import grpc
import numpy as np

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.tensors import TensorType, TensorView, view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from aclgrad.v1.operator_service_pb2_grpc import OperatorServiceStub
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.wire.service import SERVICE
from tools.benchmarks import ceilings
from tools.benchmarks.sizes import OPERATOR, Size

BATCH: Final = 64
"""Gradients in one message."""
CHUNK_BYTES: Final = 2**20

Caller = Callable[[], None]
OUTPUT: Final = OPERATORS[OPERATOR].outputs[0].name


class ShortReplyError(RuntimeError):
    """A reply without the gradient: the method is not what the row takes it for."""


@lru_cache(maxsize=1)
def gradient(size: Size) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(size.shape, np.float32)


def request_of(grad_output: np.ndarray[Any, Any], shape: tuple[int, ...]) -> bytes:
    """Returns the request of a call with the gradient and the shape of the input."""
    sent = view_of_array("grad_output", grad_output)
    return encode_request(OperatorCall(OPERATOR, (sent, TensorView("self", TensorType(sent.type.dtype, shape))), {}))


@lru_cache(maxsize=1)
def unary_request(size: Size) -> bytes:
    return request_of(gradient(size), size.shape)


@lru_cache(maxsize=1)
def echo_request(size: Size) -> bytes:
    return ceilings.request_for(len(unary_request(size)), size.tensor_bytes)


def channel_to(address: str) -> grpc.Channel:
    # A connection of its own: channels with equal options would share one.
    own = ("grpc.use_local_subchannel_pool", 1)
    return grpc.insecure_channel(address, [*aclgrad.channel_options(ceilings.LIMIT), own])


def echo(address: str, size: Size) -> Caller:
    return _unary_caller(address, ceilings.UNARY, echo_request(size), size.tensor_bytes)


def fresh_echo(address: str, size: Size) -> Caller:
    return _unary_caller(address, ceilings.FRESH, echo_request(size), size.tensor_bytes)


def unary(address: str, size: Size) -> Caller:
    return _unary_caller(address, SERVICE + "ExecuteOperator", unary_request(size), size.tensor_bytes)


def client(address: str, size: Size) -> Caller:
    connection = aclgrad.Client(address, timeout_s=None)
    grad_output = gradient(size)

    def call() -> None:
        _check(connection.execute(OPERATOR, {"grad_output": grad_output, "self": size.shape}).nbytes, size.tensor_bytes)

    return call


def stub(address: str, size: Size) -> Caller:
    """What a program writes without a client: generated messages and the generated stub, numpy in and out."""
    execute = OperatorServiceStub(channel_to(address)).ExecuteOperator
    grad_output = gradient(size)

    def call() -> None:
        request = pb.ExecuteOperatorRequest(operator=OPERATOR)
        data = grad_output.tobytes()
        request.inputs.add(name="grad_output", data_type="DATA_TYPE_FLOAT32", shape=grad_output.shape, data=data)
        request.inputs.add(name="self", data_type="DATA_TYPE_FLOAT32", shape=size.shape)
        (output,) = execute(request, wait_for_ready=True).outputs
        _check(np.frombuffer(output.data, np.float32).reshape(output.shape).copy().nbytes, size.tensor_bytes)

    return call


def batch(address: str, size: Size) -> Caller:
    one = pb.ExecuteOperatorRequest.FromString(unary_request(size))
    request = pb.BatchExecuteOperatorsRequest(calls=[one] * BATCH).SerializeToString()
    return _unary_caller(address, SERVICE + "BatchExecuteOperators", request, BATCH * size.tensor_bytes)


def stream_echo(address: str, size: Size) -> Caller:
    return _stream_caller(address, ceilings.CHUNKS, _chunk_messages(size), size.tensor_bytes)


def whole_echo(address: str, size: Size) -> Caller:
    return _stream_caller(address, ceilings.WHOLE, _chunk_messages(size), size.tensor_bytes)


def chunked(address: str, size: Size) -> Caller:
    method = SERVICE + "ExecuteOperatorChunked"
    return _stream_caller(address, method, chunked_requests(size), size.tensor_bytes)


def chunked_requests(size: Size) -> list[bytes]:
    """Returns the messages of a call in chunks."""
    request = pb.ExecuteOperatorRequest.FromString(unary_request(size))
    for tensor in request.inputs:
        tensor.ClearField("data")
    header = pb.ChunkedHeader(request=request, chunked_inputs=["grad_output"], chunk_size_bytes=CHUNK_BYTES)
    return [pb.ExecuteOperatorChunkedRequest(header=header).SerializeToString(), *_chunk_messages(size)]


def shared_memory(address: str, size: Size) -> Caller:
    # The output is each caller's own; the objects live until the load process ends.
    segment = Segment(f"aclgrad-{secrets.token_hex(8)}", create=True, size=2 * size.tensor_bytes)
    _segments.append(segment)
    assert segment.buf is not None
    segment.buf[: size.tensor_bytes] = gradient(size).tobytes()
    request = pb.ExecuteOperatorRequest.FromString(unary_request(size))
    for tensor in request.inputs:
        if tensor.HasField("data"):
            tensor.shared_memory.CopyFrom(_range(segment, 0, size.tensor_bytes))
    request.output_memory[OUTPUT].CopyFrom(_range(segment, size.tensor_bytes, size.tensor_bytes))
    return _unary_caller(address, SERVICE + "ExecuteOperator", request.SerializeToString(), 0)


def forget() -> None:
    """Removes the shared memory that callers have made."""
    for segment in _segments:
        segment.close()
        segment.unlink()
    _segments.clear()


_segments: list[Segment] = []


def _range(segment: Segment, offset: int, size_bytes: int) -> tensor_pb2.SharedMemory:
    return tensor_pb2.SharedMemory(name=f"/{segment.name}", offset_bytes=offset, size_bytes=size_bytes)


def _unary_caller(address: str, method: str, request: bytes, least_bytes: int) -> Caller:
    send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel_to(address).unary_unary(method)

    def call() -> None:
        _check(len(send(request, wait_for_ready=True)), least_bytes)

    return call


def _stream_caller(address: str, method: str, messages: list[bytes], least_bytes: int) -> Caller:
    send: grpc.StreamStreamMultiCallable[bytes, bytes] = channel_to(address).stream_stream(method)

    def call() -> None:
        _check(sum(map(len, send(iter(messages), wait_for_ready=True))), least_bytes)

    return call


@lru_cache(maxsize=1)
def _chunk_messages(size: Size) -> list[bytes]:
    data = gradient(size).tobytes()
    return [_chunk(data, offset).SerializeToString() for offset in _offsets(size)]


def _offsets(size: Size) -> Iterator[int]:
    yield from range(0, size.tensor_bytes, CHUNK_BYTES)


def _chunk(data: bytes, offset: int) -> pb.ExecuteOperatorChunkedRequest:
    chunk = pb.TensorChunk(tensor_index=0, offset_bytes=offset, data=data[offset : offset + CHUNK_BYTES])
    return pb.ExecuteOperatorChunkedRequest(chunk=chunk)


def _check(reply_bytes: int, least_bytes: int) -> None:
    if reply_bytes < least_bytes:
        raise ShortReplyError(f"{reply_bytes} bytes came back, and the gradient has {least_bytes}")
