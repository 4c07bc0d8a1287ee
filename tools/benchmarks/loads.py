"""The calls that are measured: messages that were made once, so that the server and the transport are measured."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.shared_memory import SharedMemory as Segment
from typing import Any, Final

import grpc
import numpy as np

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.tensors import TensorType, TensorView, view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.wire.service import SERVICE
from tools.benchmarks import ceilings
from tools.benchmarks.sizes import OPERATOR, Size
from tools.raw_calls import chunked_messages

BATCH: Final = 64
"""Gradients in one message."""
CHUNK_BYTES: Final = 2**20
EXECUTE: Final = SERVICE + "ExecuteOperator"
_OUTPUT: Final = OPERATORS[OPERATOR].outputs[0].name


@dataclass(frozen=True, slots=True)
class Load:
    """One call: its method, what is sent, and the least bytes of a reply that has the gradient."""

    method: str
    messages: list[bytes]
    least_bytes: int

    def send(self, channel: grpc.Channel) -> Any:
        """Returns the call as gRPC makes it; on the wire, a unary call is a stream of one message."""
        return channel.stream_stream(self.method)


@lru_cache(maxsize=1)
def gradient(size: Size) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(size.shape, np.float32)


def call(size: Size) -> OperatorCall:
    sent = view_of_array("grad_output", gradient(size))
    return OperatorCall(OPERATOR, (sent, TensorView("self", TensorType(sent.type.dtype, size.shape))), {})


@lru_cache(maxsize=1)
def unary_request(size: Size) -> bytes:
    return encode_request(call(size))


@lru_cache(maxsize=1)
def chunked_requests(size: Size) -> list[bytes]:
    """Returns the messages of a call in chunks."""
    return list(chunked_messages(call(size), ("grad_output",), CHUNK_BYTES))


@lru_cache(maxsize=1)
def echo_request(size: Size) -> bytes:
    return ceilings.request_for(len(unary_request(size)), size.tensor_bytes)


def channel_to(address: str) -> grpc.Channel:
    # A connection of its own: channels with equal options would share one.
    own = ("grpc.use_local_subchannel_pool", 1)
    return grpc.insecure_channel(address, [*aclgrad.channel_options(ceilings.LIMIT), own])


def echo(size: Size) -> Load:
    return Load(ceilings.UNARY, [echo_request(size)], size.tensor_bytes)


def fresh_echo(size: Size) -> Load:
    return Load(ceilings.FRESH, [echo_request(size)], size.tensor_bytes)


def chunk_echo(size: Size) -> Load:
    return Load(ceilings.CHUNKS, chunked_requests(size)[1:], size.tensor_bytes)


def whole_echo(size: Size) -> Load:
    return Load(ceilings.WHOLE, chunked_requests(size)[1:], size.tensor_bytes)


def unary(size: Size) -> Load:
    return Load(EXECUTE, [unary_request(size)], size.tensor_bytes)


def batch(size: Size) -> Load:
    one = pb.ExecuteOperatorRequest.FromString(unary_request(size))
    request = pb.ExecuteProgramRequest(steps=[one] * BATCH).SerializeToString()
    return Load(SERVICE + "ExecuteProgram", [request], BATCH * size.tensor_bytes)


def chunked(size: Size) -> Load:
    return Load(SERVICE + "ExecuteProgramChunked", chunked_requests(size), size.tensor_bytes)


@contextmanager
def shared_segment(most_bytes: int) -> Iterator[Callable[[Size], Load]]:
    """Yields calls whose tensors are in shared memory; all calls have the same object."""
    segment = Segment(f"aclgrad-{secrets.token_hex(8)}", create=True, size=2 * most_bytes)

    def shared_memory(size: Size) -> Load:
        assert segment.buf is not None
        segment.buf[: size.tensor_bytes] = gradient(size).tobytes()
        request = pb.ExecuteOperatorRequest.FromString(unary_request(size))
        place = {"name": f"/{segment.name}", "size_bytes": size.tensor_bytes}
        for tensor in request.inputs:
            if tensor.HasField("data"):
                tensor.shared_memory.MergeFrom(type(tensor.shared_memory)(**place))
        output = request.output_memory[_OUTPUT]
        output.MergeFrom(type(output)(offset_bytes=size.tensor_bytes, **place))
        return Load(EXECUTE, [request.SerializeToString()], 0)

    try:
        yield shared_memory
    finally:
        segment.close()
        segment.unlink()
